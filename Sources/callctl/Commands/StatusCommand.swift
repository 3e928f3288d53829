internal import ArgumentParser
internal import CallTelemetry
internal import Glibc

struct StatusCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "status",
    abstract: "The cluster's health on one screen.",
    discussion: """
      Asks every node twice, a second apart, so that rates and CPU are those of now.

      Exit status: 0 healthy; 1 degraded (the screen says why and what to do); 2 the cluster \
      cannot be reached.
      """)

  @OptionGroup(title: "Which cluster") var cluster: ClusterOptions
  @Flag(
    help: "Redraw every 2 seconds until interrupted, cut to the terminal's size.") var watch = false
  @Flag(help: "Ask once: rates and CPU are averages since the nodes began.") var once = false
  @Flag(help: "JSON in place of the screen; with --watch one object a line.") var json = false

  func validate() throws {
    if watch, once { throw ValidationError("--watch and --once exclude each other.") }
  }

  func run() async throws {
    let isHealthy = try await cluster.withCluster { questions in
      try await watch ? redraw(questions) : show(questions)
    }
    if !isHealthy { throw ExitCode(1) }
  }

  private func show(_ questions: ClusterQuestions) async throws -> Bool {
    let first = try await questions.status()
    guard !once else {
      return try output(ClusterView(first, pushQueue: await questions.pushQueue()))
    }
    let clock = ContinuousClock()
    let start = clock.now
    try await Task.sleep(for: .seconds(1))
    let second = try await questions.status(expecting: first.count)
    let spent = (clock.now - start) / .seconds(1)
    return try output(
      ClusterView(
        second, earlier: first, seconds: spent, pushQueue: await questions.pushQueue()))
  }

  /// Until the process is interrupted, or NATS is gone for good.
  private func redraw(_ questions: ClusterQuestions) async throws -> Bool {
    let clock = ContinuousClock()
    var earlier: (nodes: [NodeStatus], at: ContinuousClock.Instant)?
    while true {
      let at = clock.now
      do {
        let nodes = try await questions.status(expecting: earlier?.nodes.count)
        let seconds = earlier.map { (at - $0.at) / .seconds(1) } ?? 1
        let view = ClusterView(
          nodes, earlier: earlier?.nodes, seconds: seconds,
          pushQueue: await questions.pushQueue())
        if !json, Self.isTerminal { print("\u{1B}[H\u{1B}[2J", terminator: "") }
        _ = try output(view)
        earlier = (nodes, at)
      } catch let error as CallctlError {
        // It may come back: this is the screen that somebody looks at while it is away.
        print("callctl: \(error)")
        earlier = nil
      }
      try await clock.sleep(until: at + .seconds(2))
    }
  }

  private func output(_ view: ClusterView) throws -> Bool {
    if json {
      print(
        try JSONOutput.text(StatusJSON(view, cluster: cluster.clusterName), onOneLine: watch))
    } else {
      print(
        StatusText.render(
          view, cluster: cluster.clusterName, url: cluster.shownURL, color: Self.isTerminal,
          size: watch ? TerminalSize.ofStandardOutput : nil), terminator: "")
    }
    // Else a pipe would see a watched status in blocks of some kilobytes.
    fflush(nil)
    return view.isHealthy
  }

  private static var isTerminal: Bool { isatty(STDOUT_FILENO) == 1 }
}
