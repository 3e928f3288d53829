internal import CallAuth
internal import CallCore
internal import CallWire
internal import NIOHTTP1

/// A whole HTTP response.
struct HTTPAnswer {
  var status: Int
  var contentType = "application/json"
  var headers: [(String, String)] = []
  var body: [UInt8]
  /// Counted when set.
  var error: CallError.Code?

  static func json(_ status: Int, _ value: some Encodable) -> HTTPAnswer {
    HTTPAnswer(status: status, body: HTTPModels.encode(value))
  }

  static func metrics(_ text: String) -> HTTPAnswer {
    HTTPAnswer(
      status: 200, contentType: "text/plain; version=0.0.4; charset=utf-8",
      body: Array(text.utf8))
  }

  static func error(_ error: CallError) -> HTTPAnswer { HTTPAnswer(error) }
}

extension HTTPAnswer {
  init(_ error: CallError, headers: [(String, String)] = []) {
    self.init(
      status: error.code.httpStatus, headers: headers,
      body: HTTPBodies.error(error), error: error.code)
    if error.retryAfterMilliseconds > 0 {
      let seconds = (error.retryAfterMilliseconds + 999) / 1000
      self.headers.append(("retry-after", "\(seconds)"))
    }
    if status == 401 { self.headers.append(("www-authenticate", "Bearer")) }
  }

  init(_ failure: HTTPRoute.Failure) {
    switch failure {
    case .nothingThere: self.init(CallError(.noSuchResource))
    case .method(let allowed):
      self.init(CallError(.methodNotAllowed), headers: [("allow", allowed)])
    case .invalid(let error): self.init(error)
    }
  }

  init(_ reply: Reply, device: DeviceID) {
    switch reply {
    case .error(let error): self.init(error)
    case .done, .attached: self = .json(200, HTTPModels.Nothing())
    case .registered(let expiresAt, let removed):
      self.init(
        status: 200,
        body: HTTPBodies.registered(device: device, expiresAt: expiresAt, removed: removed))
    case .call(let state), .answer(_, let state):
      self.init(status: 200, body: HTTPBodies.callState(state))
    }
  }
}

/// The command that a request stands for.
struct HTTPCommand {
  var user: UserKey
  var device: DeviceID
  var callee: UserKey
  var body: Command.Body

  /// - Parameter device: of the query; the body's counts as well, and the token's most.
  init(
    _ route: HTTPRoute, body: [UInt8], claims: DeviceClaims, device: String?, limits: CallLimits
  ) throws(CallError) {
    user = UserKey(app: claims.app, user: claims.user)
    callee = user
    switch route {
    case .registerDevice:
      let content = try HTTPBodies.register(
        body.isEmpty ? Array("{}".utf8) : body, limits: limits)
      self.device = try Self.device(claims, content.device?.text ?? device)
      self.body = .register(content.request)
    case .unregisterDevice(let named):
      // A token for one device speaks for that device only.
      self.device = try Self.device(claims, named.text)
      self.body = .unregister(named)
    case .call(let address):
      self.device = try Self.device(claims, device)
      callee = address.calleeKey(for: user)
      self.body = .query(address.call)
    case .decline(let address):
      let content = try HTTPBodies.decline(body)
      self.device = try Self.device(claims, content.device?.text ?? device)
      callee = address.calleeKey(for: user)
      self.body = .decline(address.call, content.scope)
    case .connect, .health, .ready, .metrics:
      throw CallError(.noSuchResource)
    }
  }

  private static func device(_ claims: DeviceClaims, _ named: String?) throws(CallError)
    -> DeviceID
  {
    try DeviceID.resolve(claimed: claims.device, named: named ?? "").get()
  }
}

extension EdgeShared {
  /// The claims of the Authorization header; nil where there is none.
  func claims(_ headers: HTTPHeaders, now: Timestamp) throws(CallError) -> DeviceClaims? {
    guard let value = headers.first(name: "authorization") else { return nil }
    let parts = value.split(separator: " ", maxSplits: 1)
    guard parts.count == 2, parts[0].lowercased() == "bearer" else {
      throw CallError(.notAccepted)
    }
    do {
      return try verifier.verify(String(parts[1]), now: now.microseconds / 1_000_000)
    } catch {
      throw CallError(error)
    }
  }

  /// Whether devices should be sent here.
  func readiness(draining: Bool) -> HTTPAnswer {
    var missing: [String] = []
    if draining { missing.append("the edge drains, or the cluster does not answer it") }
    if !isBusConnected() { missing.append("the bus is not connected") }
    let ownerless = health.ownerless
    if !ownerless.isEmpty { missing.append("\(ownerless.count) shards have no owner") }
    return .json(
      missing.isEmpty ? 200 : 503,
      HTTPModels.Readiness(
        ready: missing.isEmpty, missing: missing,
        shardsWithoutOwner: Array(ownerless.prefix(32))))
  }
}
