import ArgumentParser
import Glibc

/// callload, without its entry point.
package enum LoadProgram {
  /// - Parameter openJournal: opens the journal of a cluster that callload has started.
  package static func main(openJournal: @escaping OpenJournal) async {
    let words = Array(CommandLine.arguments.dropFirst())
    if words.first == MergeCommand.name { merge(Array(words.dropFirst())) }
    let command: LoadCommand = parse(words)
    let plan: RunPlan
    do {
      plan = try RunPlan(
        command, seed: command.load.seed ?? UInt64.random(in: 1...999_999),
        files: FileLimit.raise(toward: FileLimit.needed(devices: command.load.devices)))
    } catch {
      fail("callload: \(error)")
    }
    // A reader that closes its pipe must not end the run before the cluster is stopped.
    signal(SIGPIPE, SIG_IGN)
    let run = LoadRun(
      plan: plan, console: Console(terminal: .standardError), openJournal: openJournal)
    exit(await run.execute())
  }

  private static func merge(_ words: [String]) -> Never {
    let command: MergeCommand = parse(words)
    do {
      let report = try command.merged()
      Output.write(
        report.text(Terminal.standardOutput.style).joined(separator: "\n") + "\n",
        to: STDOUT_FILENO)
      exit(Verdict(report).exitStatus)
    } catch {
      fail("callload merge: \(error)")
    }
  }

  private static func parse<Command: ParsableCommand>(_ words: [String]) -> Command {
    do {
      return try Command.parse(words)
    } catch {
      if Command.exitCode(for: error).isSuccess { Command.exit(withError: error) }
      fail(Command.fullMessage(for: error))
    }
  }

  private static func fail(_ message: String) -> Never {
    Output.write(message + "\n", to: STDERR_FILENO)
    exit(2)
  }
}
