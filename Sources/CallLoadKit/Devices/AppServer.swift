import CallClient
import CallCore
import CallWire
import Synchronization

/// Plays the app's server towards the edges: makes groups by HTTP, a few at a time.
final class AppServer: Sendable {
  /// An edge takes 200 requests at once from an app's server.
  private static let inFlightMax = 16

  private struct Work: Sendable {
    var name: String
    var group: CallGroup
    var then: @Sendable (CallError?) -> Void
  }

  private struct State {
    var waiting: [Work] = []
    var running: [Int: Task<Void, Never>] = [:]
    var next = 0
    var isClosed = false
  }

  private let client: EdgeHTTPClient
  private let mintToken: @Sendable () throws -> String
  private let state = Mutex(State())

  /// - Parameter mintToken: signs a token of the app's server.
  init(edges: [String], trust: EdgeTrust, mintToken: @escaping @Sendable () throws -> String) {
    client = EdgeHTTPClient(edges: edges, trust: trust)
    self.mintToken = mintToken
  }

  /// - Parameter then: gets the error, if there was one. Called on any thread.
  func make(_ name: String, _ group: CallGroup, then: @escaping @Sendable (CallError?) -> Void) {
    state.withLock { $0.waiting.append(Work(name: name, group: group, then: then)) }
    startMore()
  }

  func close() {
    let tasks = state.withLock { state in
      state.isClosed = true
      return Array(state.running.values)
    }
    for task in tasks { task.cancel() }
  }

  /// Each task ends at the client's deadline at the latest, and all end when this is closed.
  private func startMore() {
    state.withLock { state in
      while !state.isClosed, state.running.count < Self.inFlightMax, !state.waiting.isEmpty {
        let work = state.waiting.removeFirst()
        let number = state.next
        state.next += 1
        state.running[number] = Task {
          work.then(await self.run(work))
          self.state.withLock { $0.running[number] = nil }
          self.startMore()
        }
      }
    }
  }

  private func run(_ work: Work) async -> CallError? {
    guard let token = try? mintToken() else { return CallError(.notAccepted) }
    let request = EdgeRequest(
      method: "PUT", path: "/v1/app/groups/\(PercentEncoding.encode(work.name))",
      bearer: token, body: HTTPBodies.callGroup(work.group))
    do throws(CallError) {
      _ = try await client.perform(request, HTTPBodies.readCallGroup)
      return nil
    } catch {
      return error
    }
  }
}
