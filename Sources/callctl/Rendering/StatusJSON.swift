internal import CallTelemetry
internal import FoundationEssentials

/// `callctl status --json`: names are stable.
package struct StatusJSON: Encodable {
  struct Shards: Encodable {
    var count: Int
    var served: Int
    var withoutOwner: [Int]
    var recovering: [Int]
    var withTwoOwners: [Int]
    var stopped: [Int]
    var byOwner: [String: Int]
  }

  var cluster: String
  var healthy: Bool
  var problems: [String]
  var notes: [String]
  var shards: Shards
  var calls: ClusterView.Calls
  var connections: Int
  var sessions: Int
  var registrations: Int
  var perSecond: ClusterView.Rates
  var latencyMicroseconds: ClusterView.Latency
  var journal: ClusterView.Journal
  var push: ClusterView.Push
  var nodes: [ClusterView.Node]

  package init(_ view: ClusterView, cluster: String) {
    self.cluster = cluster
    healthy = view.isHealthy
    problems = view.problems
    notes = view.notes
    shards = Shards(
      count: view.shardCount, served: view.served, withoutOwner: view.unowned,
      recovering: view.recovering.sorted(), withTwoOwners: view.contested,
      stopped: view.stopped.keys.sorted(), byOwner: view.byOwner)
    calls = view.calls
    connections = view.connections
    sessions = view.sessions
    registrations = view.registrations
    perSecond = view.rates
    latencyMicroseconds = view.latency
    journal = view.journal
    push = view.push
    nodes = view.nodes
  }
}

/// JSON for scripts: sorted keys, so that two outputs can be compared.
package enum JSONOutput {
  /// Prints a command's result as it was asked for.
  /// - Throws: what the encoder throws.
  static func print(
    _ value: some Encodable, asJSON: Bool, else text: @autoclosure () -> String
  ) throws {
    Swift.print(asJSON ? try Self.text(value) + "\n" : text(), terminator: "")
  }

  /// - Throws: what the encoder throws.
  package static func text(_ value: some Encodable, onOneLine: Bool = false) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    if !onOneLine { encoder.outputFormatting.insert(.prettyPrinted) }
    return String(decoding: try encoder.encode(value), as: UTF8.self)
  }
}
