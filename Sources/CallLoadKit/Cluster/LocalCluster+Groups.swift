import CallAuth
import CallClient
import CallCore
import CallWire

extension LocalCluster {
  /// Makes a group whose members ring together, as the app's server does.
  /// - Parameters:
  ///   - edges: the addresses by which this machine reaches the edges.
  ///   - now: seconds since 1970.
  /// - Throws: ``SetupError`` if the cluster refuses it, or no edge answers in time.
  package func makeGroup(
    _ name: String, of users: [String], app: String, edges: [String], now: Int64
  ) async throws {
    let token = try keys.mintServerToken(app: app, lifetimeSeconds: 60, now: now)
    let trust = try caFile.map { try EdgeTrust(caFile: $0) } ?? .system
    let client = EdgeHTTPClient(edges: edges, trust: trust)
    let request = EdgeRequest(
      method: "PUT", path: "/v1/app/groups/\(PercentEncoding.encode(name))", bearer: token,
      body: HTTPBodies.callGroup(CallGroup(users: users)))
    do throws(CallError) {
      _ = try await client.perform(request, HTTPBodies.readCallGroup)
    } catch {
      throw SetupError("the group \(name) was not made: \(error)")
    }
  }
}
