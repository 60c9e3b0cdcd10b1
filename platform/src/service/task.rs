//! A task of Windows's Task Scheduler, as text.

use super::{
    Program, command_line, program, words,
    xml::{escaped, plain},
};

/// The XML of a task for `program`.
///
/// The task starts at its user's logon, without elevation. A failed start is repeated a minute
/// later. The scheduler does not restart a program that has failed. The task is not ended by a time
/// limit or on battery power. An instance that is about to end does not prevent a new one. The
/// priority is that of an ordinary program, since the default for tasks is lower.
pub(super) fn write(program: &Program, sid: &str) -> String {
    let mut words = words(program);
    let file = escaped(&words.next().unwrap_or_default());
    let arguments = escaped(&command_line::join(words));
    format!(
        r#"<?xml version="1.0" encoding="UTF-16"?>
<!-- Written by `agent-relay service install`; `agent-relay service uninstall` removes it. -->
<Task version="1.3" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo>
    <Description>Agent Relay: lets AI coding agents on this machine talk to each other</Description>
  </RegistrationInfo>
  <Triggers>
    <LogonTrigger>
      <Enabled>true</Enabled>
      <UserId>{sid}</UserId>
    </LogonTrigger>
  </Triggers>
  <Principals>
    <Principal id="Author">
      <UserId>{sid}</UserId>
      <LogonType>InteractiveToken</LogonType>
      <RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>Parallel</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <AllowHardTerminate>true</AllowHardTerminate>
    <StartWhenAvailable>false</StartWhenAvailable>
    <RunOnlyIfNetworkAvailable>false</RunOnlyIfNetworkAvailable>
    <AllowStartOnDemand>true</AllowStartOnDemand>
    <Enabled>true</Enabled>
    <Hidden>true</Hidden>
    <RunOnlyIfIdle>false</RunOnlyIfIdle>
    <WakeToRun>false</WakeToRun>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <Priority>5</Priority>
    <RestartOnFailure>
      <Interval>PT1M</Interval>
      <Count>255</Count>
    </RestartOnFailure>
  </Settings>
  <Actions Context="Author">
    <Exec>
      <Command>{file}</Command>
      <Arguments>{arguments}</Arguments>
    </Exec>
  </Actions>
</Task>
"#
    )
}

/// The program that a task runs.
pub(super) fn read(task: &str) -> Option<Program> {
    let action = inside(task, "Exec")?;
    let mut words = vec![plain(inside(action, "Command")?.trim()).trim_matches('"').to_owned()];
    words.extend(command_line::split(&plain(inside(action, "Arguments").unwrap_or_default())));
    program(words)
}

/// Whether the system starts a task by itself. A task without the setting is enabled, since the
/// scheduler omits settings with default values.
pub(super) fn is_enabled(task: &str) -> bool {
    let switched_off =
        |part| inside(task, part).is_some_and(|part| inside(part, "Enabled") == Some("false"));
    !switched_off("Settings") && !switched_off("LogonTrigger")
}

/// The content of the first element that has this name and no attributes.
fn inside<'a>(text: &'a str, element: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("<{element}>"))?;
    Some(after.split_once(&format!("</{element}>"))?.0)
}
