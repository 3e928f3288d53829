import ArgumentParser
import Glibc

/// callload, without its entry point.
package enum LoadProgram {
  package static func main() async {
    let command = parse()
    if command.part { await PartProgram.run(command) }
    if !command.from.isEmpty { exit(SeriesPlot.draw(command)) }
    let plan: RunPlan
    do {
      plan = try RunPlan(
        command, seed: command.seed ?? UInt64.random(in: 1...999_999),
        files: FileLimit.raise(toward: FileLimit.needed(devices: command.devices)))
    } catch {
      fail("callload: \(error)")
    }
    // A reader that closes its pipe must not end the run before the cluster is stopped.
    signal(SIGPIPE, SIG_IGN)
    let run = LoadRun(plan: plan, console: Console(terminal: .standardError))
    exit(await run.execute())
  }

  private static func parse() -> LoadCommand {
    do {
      return try LoadCommand.parse()
    } catch {
      if LoadCommand.exitCode(for: error).isSuccess { LoadCommand.exit(withError: error) }
      fail(LoadCommand.fullMessage(for: error))
    }
  }

  private static func fail(_ message: String) -> Never {
    Output.write(message + "\n", to: STDERR_FILENO)
    exit(2)
  }
}
