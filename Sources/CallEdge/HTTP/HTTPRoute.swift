internal import CallAuth
package import CallCore
package import CallWire

/// The purpose of an HTTP request.
package enum HTTPRoute: Equatable {
  case connect
  case registerDevice
  case unregisterDevice(DeviceID)
  case call(CallAddress)
  case decline(CallAddress)
  case busy(CallAddress)
  case history
  case historyRead
  /// The rules of the token's user.
  case rules(HTTPRulesVerb)
  /// A request of the app's server.
  case app(HTTPAppRoute)
  /// Whether the process runs. The answer does not depend on the node's state, so no token is needed.
  case health

  package enum Failure: Error, Equatable {
    case notFound
    /// The methods that the path takes.
    case method(allowed: String)
    case invalid(CallError)
  }

  /// Whether the request ends a call, for a device or for all.
  var endsCall: Bool {
    switch self {
    case .decline, .busy, .app(.endCall): true
    default: false
    }
  }

  /// Whether the request needs a credential of a user or of a push.
  package var isForDevices: Bool {
    switch self {
    case .registerDevice, .unregisterDevice, .call, .decline, .busy, .history, .historyRead, .rules:
      true
    case .connect, .health, .app: false
    }
  }

  /// The call that the request is about.
  package var callAddress: CallAddress? {
    switch self {
    case .call(let address), .decline(let address), .busy(let address): address
    case .connect, .registerDevice, .unregisterDevice, .history, .historyRead, .health, .rules,
      .app:
      nil
    }
  }

  /// The route of a request.
  /// - Parameters:
  ///   - method: `GET`, …
  ///   - path: percent-encoded, without the query.
  /// - Throws: `Failure`.
  package static func find(method: String, path: Substring) throws(Failure) -> HTTPRoute {
    let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
    let segments = parts.map(String.init)
    func only(_ allowed: String, _ route: @autoclosure () throws(Failure) -> HTTPRoute)
      throws(Failure) -> HTTPRoute
    {
      // A HEAD is a GET without the body.
      guard method == allowed || (method == "HEAD" && allowed == "GET") else {
        throw .method(allowed: allowed)
      }
      return try route()
    }
    if segments.count > 2, segments[0] == "v1", segments[1] == "app" {
      return .app(try HTTPAppRoute.find(method: method, segments[2...]))
    }
    switch segments.count {
    case 1 where segments[0] == "healthz": return try only("GET", .health)
    case 2 where segments == ["v1", "connect"]: return try only("GET", .connect)
    case 2 where segments == ["v1", "rules"]: return .rules(try HTTPRulesVerb.find(method))
    case 2 where segments == ["v1", "devices"]: return try only("POST", .registerDevice)
    case 2 where segments == ["v1", "history"]: return try only("GET", .history)
    case 3 where segments == ["v1", "history", "read"]: return try only("POST", .historyRead)
    case 3 where segments[0] == "v1" && segments[1] == "devices" && segments[2] != "":
      return try only("DELETE", .unregisterDevice(try device(segments[2])))
    case 4 where segments[0] == "v1" && segments[1] == "calls":
      return try only("GET", .call(try address(segments[2], segments[3])))
    case 5 where segments[0] == "v1" && segments[1] == "calls" && segments[4] == "decline":
      return try only("POST", .decline(try address(segments[2], segments[3])))
    case 5 where segments[0] == "v1" && segments[1] == "calls" && segments[4] == "busy":
      return try only("POST", .busy(try address(segments[2], segments[3])))
    default: throw .notFound
    }
  }

  static func device(_ segment: String) throws(Failure) -> DeviceID {
    guard let text = PercentEncoding.decode(segment.utf8[...]), IdentifierRules.isDevice(text)
    else {
      throw .invalid(CallError(.invalidDevice))
    }
    return DeviceID(text)
  }

  static func address(_ callee: String, _ call: String) throws(Failure)
    -> CallAddress
  {
    guard let callee = PercentEncoding.decode(callee.utf8[...]), IdentifierRules.isUser(callee)
    else {
      throw .invalid(CallError(.invalidCallee))
    }
    guard let call = CallID(call) else {
      throw .invalid(CallError(.invalidField, "A call id is a UUID."))
    }
    return CallAddress(callee: callee, call: call)
  }

  /// The value of a query's parameter; nil where it is missing or not percent-encoded UTF-8.
  package static func parameter(_ name: String, query: Substring) -> String? {
    for pair in query.utf8.split(separator: UInt8(ascii: "&")) {
      let sides = pair.split(
        separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
      if sides.count == 2, PercentEncoding.decode(sides[0]) == name {
        return PercentEncoding.decode(sides[1])
      }
    }
    return nil
  }

  /// How long a list is to be at most.
  static func limit(
    _ query: Substring, _ limits: ClosedRange<UInt32>, _ items: String, standard: UInt32
  ) throws(CallError) -> UInt32 {
    guard let text = parameter("limit", query: query) else { return standard }
    guard let number = UInt32(text), limits.contains(number) else {
      throw CallError(
        .invalidField, "The limit is \(limits.lowerBound) to \(limits.upperBound) \(items).")
    }
    return number
  }
}

extension Command {
  /// The command that an HTTP request stands for.
  /// - Parameter query: may name the device, and the page of a history. The body's device takes precedence; neither may
  ///   differ from the credential's.
  /// - Throws: as `HTTPBodies`, `HTTPCredential.device(named:)` and `RegistrationRequest.prepared(for:)`.
  init(
    _ route: HTTPRoute, content: [UInt8], by credential: HTTPCredential, query: Substring,
    session: SessionRef, limits: CallLimits
  ) throws(CallError) {
    if case .app(let route) = route {
      self = try Command(
        route, content: content, by: credential, query: query, session: session, limits: limits)
      return
    }
    guard let user = credential.user else { throw CallError(AuthFailure.servers) }
    let named = HTTPRoute.parameter("device", query: query)
    let device: DeviceID
    let body: Body
    switch route {
    case .registerDevice:
      let content = try HTTPBodies.register(content.isEmpty ? Array("{}".utf8) : content)
      device = try credential.device(named: content.device?.text ?? named)
      body = .register(try content.request.prepared(for: user))
    case .unregisterDevice(let removed):
      // A token for one device is valid for that device only.
      device = try credential.device(named: removed.text)
      body = .unregister(removed)
    case .call(let address):
      device = try credential.device(named: named)
      body = .call(address.call, .query)
    case .decline(let address), .busy(let address):
      let content = try HTTPBodies.decline(content)
      device = try credential.device(named: content.device?.text ?? named)
      let isBusy = if case .busy = route { true } else { false }
      body = .call(address.call, isBusy ? .busy : .decline(content.scope))
    case .history:
      device = try credential.device(named: named)
      body = .history(try HistoryCommand(query: query))
    case .historyRead:
      device = try credential.device(named: named)
      body = .history(try HTTPBodies.historyRead(content))
    case .rules(let verb):
      // Rules are the user's, whichever device sets them.
      device = DeviceID(credential.claimedDevice ?? "")
      body = .rules(try verb.request(content))
    case .connect, .health, .app:
      throw CallError(.noSuchResource)
    }
    self.init(
      session: session, request: 1, user: user, device: device,
      callee: route.callAddress?.calleeKey(for: user) ?? user, body: body)
    self.credential = credential.credential
  }
}

extension HistoryCommand {
  /// The page that a query asks for.
  /// - Throws: `invalidField`.
  init(query: Substring) throws(CallError) {
    let limit = try HTTPRoute.limit(query, Self.limits, "entries", standard: Self.limitStandard)
    var before: HistoryCursor?
    if let text = HTTPRoute.parameter("before", query: query), !text.isEmpty {
      before = HistoryCursor(text: text)
      if before == nil { throw CallError(.invalidField, "`before` is no cursor of a history.") }
    }
    self = .list(before: before, limit: limit)
  }
}
