internal import ArgumentParser
internal import CallTelemetry
internal import Glibc

struct DrainCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "drain",
    abstract: "Makes a node give up its devices or shards. It stays, empty, until it is stopped.",
    discussion: """
      An edge takes no new session and no new call, tells its devices to connect elsewhere, and \
      closes those that stay, the ones in a call last. A coordinator hands its shards over one by \
      one. Calls go on. callctl resume NODE takes it back.

        callctl drain edge-$(hostname)-1 --wait && systemctl restart callmesh-edge@1

      Exit status: 0 the node drains, with --wait: is drained; 1 it is not known, should not be \
      drained, or was not drained in time; 2 the cluster cannot be reached.
      """)

  @Argument(help: "The node's name, as callctl status shows it.") var node: String
  @Flag(help: "Show what is left, and end when the node is drained.") var wait = false
  @Option(
    help: ArgumentHelp("With --wait: give up after this many seconds.", valueName: "seconds"))
  var waitTimeout = 600
  @Option(
    help: ArgumentHelp(
      "Over how long an edge spreads its devices. (default: the edge's drainSeconds)",
      valueName: "seconds"))
  var over: Int?
  @Flag(help: "Also when no other edge or coordinator serves.") var force = false
  @OptionGroup(title: "Which cluster") var cluster: ClusterOptions
  @Flag(help: "JSON in place of text.") var json = false

  func validate() throws {
    if let over, !(0...3600).contains(over) {
      throw ValidationError("--over is \(over); give 0 to 3600 seconds.")
    }
    guard (1...86_400).contains(waitTimeout) else {
      throw ValidationError("--wait-timeout is \(waitTimeout); give 1 to 86400 seconds.")
    }
  }

  func run() async throws {
    let order = NodeOrder(
      request: DrainRequest(node: node, action: .drain, seconds: over), force: force,
      waits: wait ? .seconds(waitTimeout) : nil, json: json)
    try await cluster.withCluster { try await order.carryOut($0) { $0.isDrained } }
  }
}

struct ResumeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "resume",
    abstract: "Lets a node serve again that was drained.",
    discussion: """
      Exit status: 0 it serves; 1 no such node answers, or it does not serve; 2 the cluster cannot \
      be reached. A node that was told to stop does not come back.
      """)

  @Argument(help: "The node's name, as callctl status shows it.") var node: String
  @OptionGroup(title: "Which cluster") var cluster: ClusterOptions
  @Flag(help: "JSON in place of text.") var json = false

  func run() async throws {
    let order = NodeOrder(
      request: DrainRequest(node: node, action: .resume), force: true, waits: .seconds(10),
      json: json)
    try await cluster.withCluster { try await order.carryOut($0) { $0.isServing } }
  }
}

/// An order to one node, and the wait until the node has carried it out.
private struct NodeOrder {
  var request: DrainRequest
  /// Whether the last node of a role is drained, too.
  var force: Bool
  /// nil: the operator does not wait.
  var waits: Duration?
  var json: Bool

  func carryOut(
    _ questions: ClusterQuestions, until isDone: (DrainView) -> Bool
  ) async throws {
    let statuses = try await questions.status()
    if let refusal = DrainView.refusal(statuses, node: request.node, force: force) {
      throw CallctlError.failed(refusal.sentence(node: request.node))
    }
    let clock = ContinuousClock()
    let start = clock.now
    try await questions.order(request)
    var expecting: Int? = statuses.count
    var shown = ""
    while true {
      var view = DrainView(try await questions.status(expecting: expecting), node: request.node)
      // A node that ended while it drained has drained. Then there is one answer less.
      expecting = view.statuses.isEmpty ? nil : expecting
      view.done = isDone(view)
      view.seconds = (clock.now - start) / .seconds(1)
      let isLate = waits.map { $0 < clock.now - start } ?? true
      if view.done || isLate {
        try JSONOutput.print(view, asJSON: json, else: view.text(hasWaited: waits != nil))
        if waits != nil, !view.done {
          throw CallctlError.failed("\(request.node) is \(view.state), with \(view.left) left.")
        }
        return
      }
      let line = "\(request.node) \(view.state): \(view.left) left"
      if !json, line != shown {
        print(line)
        fflush(nil)
      }
      shown = line
      try await clock.sleep(for: .milliseconds(500))
    }
  }
}
