public import CallCore
internal import CallWire

/// What an app can do with a push for a call before it has a session, or without ever having one:
/// ask whether the call still rings, decline it, or say that this device is busy.
///
///     let actions = client.actions(callee: "bob", call: call, capability: capability)
///     let state = try await actions.decline()
///
/// The push's capability is the whole login: it is good for this call, user and device only, and for
/// as long as the cluster remembers the call. Each takes effect once; a repeat is answered alike.
public struct PushActions: Sendable {
  /// Of the callee, whom the push was for.
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

  /// - Returns: the call as this device may see it.
  /// - Throws: `expired` when the call is long over; `notAccepted` where the capability is not for
  ///   this call; `tryAgain` where no edge answered in time. So do the others.
  public func state() async throws(CallError) -> CallState {
    try await ask("GET", "", [])
  }

  /// - Parameter scope: for the user, so that the call ends; or for this device only.
  @discardableResult
  public func decline(_ scope: DeclineScope = .everywhere) async throws(CallError) -> CallState {
    try await ask("POST", "/decline", HTTPBodies.encode(HTTPBodies.Decline(scope: scope)))
  }

  /// This device is busy; the others ring on.
  @discardableResult
  public func busy() async throws(CallError) -> CallState {
    try await ask("POST", "/busy", HTTPBodies.encode(HTTPBodies.Busy()))
  }

  private func ask(
    _ method: String, _ action: String, _ body: [UInt8]
  ) async throws(CallError) -> CallState {
    let path = "/v1/calls/\(EdgeHTTPClient.encoded(callee))/\(call)\(action)"
    return try await client.perform(
      EdgeRequest(
        method: method, path: path, authorization: "CallmeshPush \(capability)", body: body),
      HTTPBodies.readCallState)
  }
}

/// The capability is printed by nothing.
extension PushActions: CustomStringConvertible, CustomReflectable {
  public var description: String { "PushActions(\(call))" }
  public var customMirror: Mirror {
    Mirror(self, children: ["callee": callee, "call": call.description])
  }
}
