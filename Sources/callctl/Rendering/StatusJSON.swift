internal import CallTelemetry

/// `callctl status --json`: names are stable. Beside the view's own members it has these.
package struct StatusJSON: Encodable {
  private struct Shards: Encodable {
    var count: Int
    var served: Int
    var withoutOwner: [Int]
    var recovering: [Int]
    var withTwoOwners: [Int]
    var stopped: [Int]
    var byOwner: [String: Int]
  }
  private enum CodingKeys: CodingKey { case cluster, healthy, shards }

  private let view: ClusterView
  private let cluster: String

  package init(_ view: ClusterView, cluster: String) {
    self.view = view
    self.cluster = cluster
  }

  package func encode(to encoder: any Encoder) throws {
    try view.encode(to: encoder)
    var members = encoder.container(keyedBy: CodingKeys.self)
    try members.encode(cluster, forKey: .cluster)
    try members.encode(view.isHealthy, forKey: .healthy)
    let shards = Shards(
      count: view.shardCount, served: view.served, withoutOwner: view.unowned,
      recovering: view.recovering.sorted(), withTwoOwners: view.contested,
      stopped: view.stopped.keys.sorted(), byOwner: view.byOwner)
    try members.encode(shards, forKey: .shards)
  }
}

enum JSONOutput {
  /// Prints a command's result as it was asked for.
  /// - Throws: what the encoder throws.
  static func print(
    _ value: some Encodable, asJSON: Bool, else text: @autoclosure () -> String
  ) throws {
    Swift.print(asJSON ? try value.sortedJSON(indented: true) + "\n" : text(), terminator: "")
  }
}
