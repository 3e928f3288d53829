public import CallCore
internal import CallWire

/// Actions on a call that a push announced, without a session: ask whether the call still rings, decline
/// it, or report that this device is busy.
///
/// ```swift
/// let actions = client.actions(callee: "bob", call: call, capability: capability)
/// let state = try await actions.decline()
/// ```
///
/// The push's capability is the credential. It is valid for this call, user and device only, as long as
/// the cluster remembers the call. The actions are idempotent.
public struct PushActions: Sendable {
  /// The callee's user id: the user that the push was for.
  public let callee: String
  public let call: CallID
  let client: EdgeHTTPClient
  private let capability: String

  init(client: EdgeHTTPClient, callee: String, call: CallID, capability: String) {
    self.client = client
    self.callee = callee
    self.call = call
    self.capability = capability
  }

  /// Asks for the call's state.
  /// - Throws: `CallError`: `expired` if the call is long over, `notAccepted` if the capability is not for
  ///   this call, `tryAgain` if no edge answered in time.
  public func state() async throws(CallError) -> CallState {
    try await send(.query)
  }

  /// Declines the call: for the user, which ends it, or for this device alone.
  /// - Throws: `CallError`, as `state`.
  @discardableResult
  public func decline(_ scope: DeclineScope = .everywhere) async throws(CallError) -> CallState {
    try await send(.decline(scope))
  }

  /// Reports that this device is busy. The user's other devices keep ringing.
  /// - Throws: `CallError`, as `state`.
  @discardableResult
  public func busy() async throws(CallError) -> CallState {
    try await send(.busy)
  }

  private func send(_ action: Action) async throws(CallError) -> CallState {
    try await client.perform(
      Self.request(action, callee: callee, call: call, capability: capability),
      HTTPBodies.readCallState)
  }

  package enum Action {
    case query
    case decline(DeclineScope)
    case busy
  }

  package static func request(
    _ action: Action, callee: String, call: CallID, capability: String
  ) -> EdgeRequest {
    let (method, suffix, body) =
      switch action {
      case .query: ("GET", "", [UInt8]())
      case .decline(let scope):
        ("POST", "/decline", HTTPBodies.encode(HTTPBodies.Decline(scope: scope)))
      case .busy: ("POST", "/busy", HTTPBodies.encode(HTTPBodies.Decline()))
      }
    return EdgeRequest(
      method: method, path: "/v1/calls/\(PercentEncoding.encode(callee))/\(call)\(suffix)",
      authorization: "CallmeshPush \(capability)", body: body)
  }
}

/// Descriptions and mirrors leave out the capability.
extension PushActions: CustomStringConvertible, CustomReflectable {
  public var description: String { "PushActions(\(call))" }
  public var customMirror: Mirror {
    Mirror(self, children: ["callee": callee, "call": call.description])
  }
}
