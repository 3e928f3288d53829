internal import CallAuth
package import CallCore
package import CallWire

/// What is done to rules, or to a group.
package enum HTTPRulesVerb: Equatable {
  case get
  case put
  case delete

  static func find(_ method: String) throws(HTTPRoute.Failure) -> HTTPRulesVerb {
    switch method {
    case "GET", "HEAD": .get
    case "PUT": .put
    case "DELETE": .delete
    default: throw .method(allowed: "GET, PUT, DELETE")
    }
  }

  /// - Throws: as `HTTPBodies.userRules`.
  func request(_ content: [UInt8]) throws(CallError) -> RulesRequest {
    switch self {
    case .get: .read
    case .put: .write(try HTTPBodies.userRules(content))
    case .delete: .write(UserRules())
    }
  }
}

/// What a request of the app's server is for: the paths below `/v1/app/`.
package enum HTTPAppRoute: Equatable {
  case user(String)
  case calls(of: String)
  case removeDevice(DeviceID, of: String)
  case rules(HTTPRulesVerb, of: String)
  case group(HTTPRulesVerb, String)
  case call(CallAddress)
  case endCall(CallAddress)

  /// The user that it is about.
  package var user: String {
    switch self {
    case .user(let user), .calls(let user), .removeDevice(_, let user), .rules(_, let user),
      .group(_, let user):
      user
    case .call(let address), .endCall(let address): address.callee
    }
  }

  /// What it takes of the app's rate, in thousandths of a request. A question to all shards is as dear as ten others.
  var cost: Int64 { if case .calls = self { 10_000 } else { 1000 } }

  /// - Parameter segments: of the path, behind `/v1/app/`.
  static func find(
    method: String, _ segments: ArraySlice<String>
  ) throws(HTTPRoute.Failure) -> HTTPAppRoute {
    let parts = Array(segments)
    func only(_ allowed: String) throws(HTTPRoute.Failure) {
      guard method == allowed || (method == "HEAD" && allowed == "GET") else {
        throw .method(allowed: allowed)
      }
    }
    switch (parts.first, parts.count) {
    case ("users", 2):
      try only("GET")
      return .user(try user(parts[1]))
    case ("users", 3) where parts[2] == "calls":
      try only("GET")
      return .calls(of: try user(parts[1]))
    case ("users", 3) where parts[2] == "rules":
      return .rules(try HTTPRulesVerb.find(method), of: try user(parts[1]))
    case ("groups", 2): return .group(try HTTPRulesVerb.find(method), try user(parts[1]))
    case ("users", 4) where parts[2] == "devices":
      try only("DELETE")
      return .removeDevice(try HTTPRoute.device(parts[3]), of: try user(parts[1]))
    case ("calls", 3):
      try only("GET")
      return .call(try HTTPRoute.address(parts[1], parts[2]))
    case ("calls", 4) where parts[3] == "end":
      try only("POST")
      return .endCall(try HTTPRoute.address(parts[1], parts[2]))
    default: throw .notFound
    }
  }

  private static func user(_ segment: String) throws(HTTPRoute.Failure) -> String {
    guard let text = PercentEncoding.decode(segment.utf8[...]), IdentifierRules.isUser(text)
    else {
      throw .invalid(
        CallError(.invalidField, "A user id is 1 to 128 bytes of text that can be seen."))
    }
    return text
  }
}

extension Command {
  /// The command that a request of the app's server stands for.
  /// - Throws: `forbidden` for a credential that is no server's, or as `HTTPRulesVerb.request`.
  init(
    _ route: HTTPAppRoute, content: [UInt8], by credential: HTTPCredential, session: SessionRef
  ) throws(CallError) {
    guard case .server(let claims, _) = credential else { throw CallError(AuthFailure.users) }
    let user = UserKey(app: claims.app, user: route.user)
    let body: Body =
      switch route {
      case .user: .app(.user)
      case .calls: .app(.calls(shard: 0))
      case .removeDevice(let device, _): .app(.remove(device))
      case .call(let address): .app(.call(address.call))
      case .endCall(let address): .app(.end(address.call))
      case .rules(let verb, _): .rules(try verb.request(content))
      case .group(.get, _): .app(.group)
      case .group(.put, _): .app(.setGroup(try HTTPBodies.callGroup(content)))
      case .group(.delete, _): .app(.setGroup(nil))
      }
    self.init(session: session, request: 1, user: user, device: "", callee: user, body: body)
    self.credential = credential.credential
  }
}
