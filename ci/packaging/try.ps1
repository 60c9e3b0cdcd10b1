# Tries the installer on a Windows machine without Agent Relay, in an elevated PowerShell:
#     ci\packaging\try.ps1 FIRST NEXT FAILING
# FIRST is the .msi of a version, the others are those of ci/packaging/next. Leaves the homes
# behind.
param([Parameter(Mandatory)][string]$First, [Parameter(Mandatory)][string]$Next, [Parameter(Mandatory)][string]$Failing)
$ErrorActionPreference = 'Stop'
$programs = "$Env:ProgramFiles\agent-relay"
$scratch = Join-Path $Env:TEMP 'agent-relay-try'
$copy = "$scratch\agent-relay.exe"
$key = 'HKLM:\SYSTEM\CurrentControlSet\Services\agent-relay'

function Assert([bool]$holds, [string]$what) {
    if (-not $holds) { throw "not so: $what" }
}

# Runs Windows Installer, which must exit with this code.
function Invoke-Installer([int]$code, [string]$option, [string]$msi, [string]$more) {
    Write-Host "== msiexec $option $msi $more, exit code $code"
    $log = "$scratch\msi.log"
    $options = "$option `"$msi`" $more /qn /norestart /l*v `"$log`""
    $exit = (Start-Process msiexec $options -Wait -PassThru).ExitCode
    if ($exit -ne $code) { Get-Content $log -Tail 200 | Out-Host }
    Assert ($exit -eq $code) "msiexec exits with $code, and not with $exit"
}

# Runs a program, which must succeed, and returns its output.
function Invoke-Program([string]$program, [string[]]$words) {
    $output = & $program $words
    Assert ($LASTEXITCODE -eq 0) "$program $words succeeds, and not with exit code ${LASTEXITCODE}: $output"
    $output
}

# Returns the entries among the installed apps.
function Get-Entries {
    @(Get-ItemProperty HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Uninstall\* |
        Where-Object { $_.PSObject.Properties['DisplayName'] -and $_.DisplayName -eq 'Agent Relay' })
}

function Get-PathEntries {
    @([Environment]::GetEnvironmentVariable('Path', 'Machine') -split ';' | Where-Object { $_.TrimEnd('\') -eq $programs })
}

# Checks which version is installed, by a hash of its README, and that there is no other.
function Assert-Installed([string]$version, [string]$readme) {
    $entries = Get-Entries
    Assert ($entries.Count -eq 1 -and $entries[0].DisplayVersion -eq $version) "installed is $version alone: $($entries.DisplayVersion)"
    Assert ((Get-FileHash "$programs\README.md").Hash -eq $readme) "the files are those of $version"
    Assert ((Get-PathEntries).Count -eq 1) 'the folder is once on the PATH'
}

# Returns who may change a folder, or a file in it, or its access list: their SIDs.
function Get-Writers([string]$folder) {
    $sid = [Security.Principal.SecurityIdentifier]
    # The rights to write and to delete, those to change access list and owner, and generic ones.
    $write = 0x2 -bor 0x4 -bor 0x40 -bor 0x10000 -bor 0x40000 -bor 0x80000 -bor 0x10000000 -bor 0x40000000
    @(Get-Item $folder; Get-ChildItem $folder -Recurse) | ForEach-Object {
        $access = Get-Acl $_.FullName
        $access.GetOwner($sid).Value
        $access.GetAccessRules($true, $true, $sid) |
            Where-Object { $_.AccessControlType -eq 'Allow' -and ([int]$_.FileSystemRights -band $write) } |
            ForEach-Object { $_.IdentityReference.Value }
    } | Sort-Object -Unique
}

# Returns the process of the service, which must be another one than before.
function Wait-Service([int]$before) {
    (Get-Service agent-relay).WaitForStatus('Running', '00:01:00')
    $process = (Get-CimInstance Win32_Service -Filter "Name='agent-relay'").ProcessId
    Assert ($process -ne $before) "the service runs as another process than $before"
    $process
}

# Waits until the agent is with the daemon, since it may have to come back.
function Wait-Agent {
    for ($n = 0; $n -lt 60; $n++) {
        $agents = Invoke-Program $copy @('agents', '--json')
        if ($agents | ConvertFrom-Json | Where-Object { $_.name -eq 'Ann' -and $_.here }) { return }
        Start-Sleep -Milliseconds 500
    }
    throw "Ann is not here: $agents"
}

New-Item $scratch -ItemType Directory -Force | Out-Null
$First, $Next, $Failing = @($First, $Next, $Failing) | ForEach-Object { (Resolve-Path $_).Path }

Invoke-Installer 0 /i $First
$version = (Get-Entries)[0].DisplayVersion
$readme = (Get-FileHash "$programs\README.md").Hash
$program = (Get-FileHash "$programs\agent-relay.exe").Hash
Assert-Installed $version $readme
Assert (-not (Test-Path $key)) 'the .msi makes no service'

Invoke-Program "$programs\agent-relay.exe" @('service', 'install') | Out-Host
$process = Wait-Service 0
# The agent's programs are copies, so that none of the installer's are in use.
Copy-Item "$programs\*.exe" $scratch
Invoke-Program $copy @('spawn', 'Ann', '--', 'cmd') | Out-Host
Wait-Agent

# A failed upgrade is rolled back.
Invoke-Installer 1603 /i $Failing
Assert-Installed $version $readme
Assert ((Get-FileHash "$programs\agent-relay.exe").Hash -eq $program) 'the program is the old one'
$process = Wait-Service $process
Wait-Agent

Invoke-Installer 0 /i $Next
$nextReadme = (Get-FileHash "$programs\README.md").Hash
Assert ($nextReadme -ne $readme) 'the files are new'
Assert ((Get-FileHash "$programs\agent-relay.exe").Hash -ne $program) 'the program is new'
Assert-Installed '99.0.0' $nextReadme
$process = Wait-Service $process
Wait-Agent

# An older version is refused, and touches nothing.
Invoke-Installer 1603 /i $First
Assert-Installed '99.0.0' $nextReadme
Assert ((Get-CimInstance Win32_Service -Filter "Name='agent-relay'").ProcessId -eq $process) 'the service goes on'

Invoke-Installer 0 /fa $Next
Assert-Installed '99.0.0' $nextReadme
$process = Wait-Service $process
Wait-Agent
Invoke-Program $copy @('stop', 'Ann') | Out-Host

# A service that is disabled stays stopped.
Set-Service agent-relay -StartupType Disabled
Stop-Service agent-relay
Invoke-Installer 0 /fa $Next
Assert ((Get-Service agent-relay).Status -eq 'Stopped') 'a disabled service is not started'

Invoke-Installer 0 /x $Next
Assert (-not (Test-Path $key)) 'the service is removed'
Assert (-not (Test-Path $programs)) 'the files are removed'
Assert ((Get-PathEntries).Count -eq 0) 'the PATH lacks the folder'
Assert ((Get-Entries).Count -eq 0) 'nothing is among the installed apps'
Invoke-Program $copy @('doctor', '--mend') | Out-Host
Assert (-not (Test-Path "$Env:LOCALAPPDATA\agent-relay\service.toml")) 'doctor removes service.toml'

# The folder is remembered. Blanks need quotes.
Invoke-Installer 0 /i $First 'INSTALLFOLDER="C:\Our Relay"'
Invoke-Installer 0 /i $Next
$programs = 'C:\Our Relay'
Assert-Installed '99.0.0' $nextReadme
# The volume's root lets everybody write into new folders, and the installer does not.
$others = Get-Writers $programs | Where-Object { $_ -notin 'S-1-5-18', 'S-1-5-32-544' }
Assert (-not $others) "only SYSTEM and administrators write into the folder, and not $others"
Invoke-Installer 0 /x $Next
Assert (-not (Test-Path $programs)) 'the files are removed'
Remove-Item $scratch -Recurse
Write-Host 'all as it should be'
