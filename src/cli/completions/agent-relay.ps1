# Completes agent-relay. agent-relay itself makes the candidates, and starts nothing.
Register-ArgumentCompleter -Native -CommandName agent-relay -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $result = [System.Management.Automation.CompletionResult]
    $elements = @($commandAst.CommandElements | Where-Object { $_.Extent.StartOffset -lt $cursorPosition })
    $given = @($elements | Select-Object -Skip 1 | ForEach-Object {
        if ($_ -is [System.Management.Automation.Language.StringConstantExpressionAst]) { $_.Value } else { $_.Extent.Text }
    })
    # The word at the cursor is the last one, and may be empty.
    if ($elements[-1].Extent.EndOffset -lt $cursorPosition) { $given += '' }
    # Windows PowerShell drops empty arguments of programs, so a mark stands before each.
    $marked = @($given | ForEach-Object { '.' + $_ })
    $program = @(Get-Command -Name agent-relay -CommandType Application -ErrorAction SilentlyContinue)[0]
    if (-not $program) { return }
    $answer = @(& $program.Source --as-agent-relay complete marked @marked 2>$null)
    if ($answer.Count -eq 0) { return }
    foreach ($line in ($answer | Select-Object -Skip 1)) {
        $word, $description = $line -split [char]9, 2
        $text = $word
        if ($word -notmatch '^[\w.:/=-]+$') { $text = [char]39 + ($word -replace [char]39, ([string][char]39 * 2)) + [char]39 }
        if (-not $description) { $description = $word }
        $result::new($text, $word, 'ParameterValue', $description)
    }
    $how, $first = $answer[0] -split ' '
    if ($how -eq 'command') {
        $number = 1 + [int]$first
        $begin = $cursorPosition
        if ($number -lt $elements.Count) { $begin = $elements[$number].Extent.StartOffset }
        # The text up to the cursor, at the place that it has in the whole input.
        $line = (' ' * $commandAst.Extent.StartOffset) + $commandAst.Extent.Text
        $line = $line.PadRight($cursorPosition)
        $line = $line.Substring(0, $cursorPosition)
        $line = $line.Substring($begin)
        [System.Management.Automation.CommandCompletion]::CompleteInput($line, $line.Length, $null).CompletionMatches
    }
    # Without a result, PowerShell offers files and directories. An empty text keeps it from that.
    if ($how -eq 'words' -and $answer.Count -eq 1) { '' }
}
