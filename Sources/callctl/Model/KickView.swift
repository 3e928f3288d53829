package import CallTelemetry

/// The result of an order to end a user's sessions, from the edges' answers. Does no I/O, so that it can be tested.
package struct KickView: Encodable {
  package var app: String
  package var user: String
  package var device: String?
  /// For a revocation: its time, in seconds since 1970.
  package var revokedAtSeconds: Int64?
  package var sessionsEnded: Int
  /// Edges that have carried the order out.
  package var edges: [String]
  /// Edges that have not answered.
  package var silentEdges: [String]

  /// - Parameter known: all nodes that answered just before.
  package init(_ request: KickRequest, _ answers: [KickAnswer], known: [NodeStatus]) {
    app = request.app
    user = request.user
    device = request.device
    revokedAtSeconds = request.revokedAtSeconds
    sessionsEnded = answers.reduce(into: 0) { $0.add($1.sessions ?? 0) }
    edges = answers.map(\.node).sorted()
    let done = Set(edges)
    silentEdges = Self.edges(known).map(\.node).filter { !done.contains($0) }.sorted()
  }

  package static func edges(_ nodes: [NodeStatus]) -> [NodeStatus] {
    nodes.filter { $0.edge != nil }
  }

  /// Returns the latest of the edges' clocks, since edges check tokens against the time of a revocation; this
  /// machine's clock only where no edge reports one.
  package static func now(_ nodes: [NodeStatus], own: Int64) -> Int64 {
    edges(nodes).compactMap { $0.edge?.clockSeconds }.max() ?? own
  }

  package var text: String {
    let whose = device.map { "\(user)'s device \($0)" } ?? user
    let isRevocation = revokedAtSeconds != nil
    var out = isRevocation ? "No token of \(user) counts any more that was issued until now.\n" : ""
    out +=
      "\(Figures.counted(sessionsEnded, "session")) of \(whose) ended on "
      + "\(Figures.counted(edges.count, "edge")).\n"
    if !silentEdges.isEmpty {
      let remedy =
        isRevocation
        ? "They end the sessions as soon as they hear of it."
        : "Run it again, or restart what does not answer."
      out += "Not answered: \(silentEdges.joined(separator: ", ")). \(remedy)\n"
    }
    return out
  }
}
