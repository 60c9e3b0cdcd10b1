/* TEST-ONLY: `desktop.exe PROGRAM ARGUMENT...` runs a program while Wine's desktop is up. The first that needs a desktop starts
   explorer.exe. If that is the host of a pseudo console, explorer.exe keeps its ends of the pipes open, and whoever reads the
   console never sees the end. So explorer.exe has to be there before the first console, and stay until after the last. */
#define _WIN32_WINNT 0x0601
#include <windows.h>
/* Ctrl-C goes to all that share the console: the program's to handle, not ours. A handler is not inherited, ignoring would be. */
static BOOL WINAPI outlive(DWORD event) { return event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT; }
int main(void) {
    GetDesktopWindow();
    WCHAR *c = GetCommandLineW();
    if (*c == '"') { c++; while (*c && *c != '"') c++; if (*c) c++; } else while (*c && *c != ' ') c++;
    while (*c == ' ') c++;
    STARTUPINFOW si; PROCESS_INFORMATION pi;
    GetStartupInfoW(&si);
    SetConsoleCtrlHandler(outlive, TRUE);
    if (!CreateProcessW(NULL, c, NULL, NULL, TRUE, 0, NULL, NULL, &si, &pi)) return 127;
    WaitForSingleObject(pi.hProcess, INFINITE);
    DWORD r = 1; GetExitCodeProcess(pi.hProcess, &r); return r;
}
