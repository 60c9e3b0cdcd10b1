/* For tests only: `desktop.exe PROGRAM ARGUMENT...` runs a program while Wine's desktop is up. The
   first process that needs a desktop starts explorer.exe. If that process is the host of a pseudo
   console, explorer.exe keeps its ends of the pipes open, and a reader of the console never sees
   the end. So explorer.exe has to run from before the first console until after the last. */
#define _WIN32_WINNT 0x0601
#include <windows.h>
/* Ctrl-C reaches all programs of the console, and only PROGRAM must react to it. This process has a
   handler, since PROGRAM would inherit the setting that ignores Ctrl-C. */
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
