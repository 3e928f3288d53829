internal import CallAuth
internal import CallCore
internal import CallWire

/// The command that an HTTP request stands for.
struct HTTPCommand {
  var user: UserKey
  var device: DeviceID
  var callee: UserKey
  var body: Command.Body

  /// - Parameter device: the query's. The body's takes precedence; neither may differ from the credential's.
  /// - Throws: as `HTTPBodies`, `HTTPCredential.device(named:)` and `RegistrationRequest.prepared(for:)`.
  init(
    _ route: HTTPRoute, body: [UInt8], credential: HTTPCredential, device: String?
  ) throws(CallError) {
    user = credential.user
    switch route {
    case .registerDevice:
      let content = try HTTPBodies.register(body.isEmpty ? Array("{}".utf8) : body)
      self.device = try credential.device(named: content.device?.text ?? device)
      self.body = .register(try content.request.prepared(for: user))
    case .unregisterDevice(let named):
      // A token for one device speaks for that device only.
      self.device = try credential.device(named: named.text)
      self.body = .unregister(named)
    case .call(let address):
      self.device = try credential.device(named: device)
      self.body = .call(address.call, .query)
    case .decline(let address):
      let content = try HTTPBodies.decline(body)
      self.device = try credential.device(named: content.device?.text ?? device)
      self.body = .call(address.call, .decline(content.scope))
    case .busy(let address):
      let content = try HTTPBodies.decline(body)
      self.device = try credential.device(named: content.device?.text ?? device)
      self.body = .call(address.call, .busy)
    case .connect, .health:
      throw CallError(.noSuchResource)
    }
    callee = route.callAddress?.calleeKey(for: user) ?? user
  }
}
