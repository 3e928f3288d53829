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

  /// Two samples, a second apart, or one.
  private func show(_ questions: ClusterQuestions) async throws -> Bool {
    var earlier: Sample?
    let start = ContinuousClock.now
    var view = try await view(questions, since: &earlier)
    if !once {
      try await ContinuousClock().sleep(until: start + .seconds(1))
      view = try await self.view(questions, since: &earlier)
    }
    return try output(view)
  }

  /// Until the process is interrupted, or NATS is gone for good.
  private func redraw(_ questions: ClusterQuestions) async throws -> Bool {
    var earlier: Sample?
    while true {
      let start = ContinuousClock.now
      do {
        let view = try await view(questions, since: &earlier)
        if !json, Self.isTerminal { print("\u{1B}[H\u{1B}[2J", terminator: "") }
        _ = try output(view)
      } catch let error as CallctlError {
        // The cluster may come back, and operators watch this screen meanwhile.
        print("callctl: \(error)")
        earlier = nil
      }
      try await ContinuousClock().sleep(until: start + .seconds(2))
    }
  }

  private typealias Sample = (nodes: [NodeStatus], at: ContinuousClock.Instant)

  /// Asks all nodes and the queue.
  /// - Parameter earlier: the sample that rates count from; replaced by the new one.
  private func view(
    _ questions: ClusterQuestions, since earlier: inout Sample?
  ) async throws -> ClusterView {
    let at = ContinuousClock.now
    let nodes = try await questions.status(expecting: earlier?.nodes.count)
    let former = earlier
    earlier = (nodes, at)
    return ClusterView(
      nodes, earlier: former?.nodes, seconds: former.map { (at - $0.at) / .seconds(1) } ?? 1,
      pushQueue: await questions.pushQueue(),
      webhooksGone: (try? await WebhookReader(questions).gone()) ?? [])
  }

  private func output(_ view: ClusterView) throws -> Bool {
    if json {
      print(
        try StatusJSON(view, cluster: cluster.clusterName).sortedJSON(indented: !watch))
    } else {
      print(
        StatusText.render(
          view, cluster: cluster.clusterName, url: cluster.shownURL, color: Self.isTerminal,
          size: watch ? TerminalSize.ofStandardOutput : nil), terminator: "")
    }
    // Otherwise a pipe receives a watched status in blocks of some kilobytes.
    fflush(nil)
    return view.isHealthy
  }

  private static var isTerminal: Bool { isatty(STDOUT_FILENO) == 1 }
}
