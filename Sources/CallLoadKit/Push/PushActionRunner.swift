package import CallClient
package import CallCore
import CallWire
import Synchronization

package struct PushAction: Sendable {
  package var callee: String
  package var call: CallID
  package var capability: String
  package var what: PushActions.Action
}

/// Sends the requests of devices without a session over HTTP.
///
/// It owns a task for each request. A task ends at the client's deadline at the latest, and all end when the
/// runner is closed. More than `limit` at a time are refused, as by an overloaded edge.
final class PushActionRunner: Sendable {
  static let limit = 1024

  private struct State {
    var tasks: [Int: Task<Void, Never>] = [:]
    var next = 0
    var isClosed = false
  }
  private let client: EdgeHTTPClient
  private let state = Mutex(State())

  init(edges: [String], trust: EdgeTrust) { client = EdgeHTTPClient(edges: edges, trust: trust) }

  func perform(
    _ action: PushAction, then: @escaping @Sendable (Result<CallState, CallError>) -> Void
  ) {
    let isTaken = state.withLock { state in
      guard !state.isClosed, state.tasks.count < Self.limit else { return false }
      let number = state.next
      state.next += 1
      state.tasks[number] = Task {
        then(await self.run(action))
        self.state.withLock { $0.tasks[number] = nil }
      }
      return true
    }
    if !isTaken { then(.failure(CallError(.overloaded))) }
  }

  func close() {
    let tasks = state.withLock { state in
      state.isClosed = true
      return Array(state.tasks.values)
    }
    for task in tasks { task.cancel() }
  }

  private func run(_ action: PushAction) async -> Result<CallState, CallError> {
    let request = PushActions.request(
      action.what, callee: action.callee, call: action.call, capability: action.capability)
    do throws(CallError) {
      return .success(try await client.perform(request, HTTPBodies.readCallState))
    } catch {
      return .failure(error)
    }
  }
}
