internal import CallAuth
package import CallCore
package import CallWire

/// An operation on rules, on a group, or on a name.
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

/// The purpose of a request of the app's server: the paths below `/v1/app/`.
package enum HTTPAppRoute: Equatable {
  case user(String)
  case calls(of: String)
  /// A page of the user's history; the query says which.
  case history(of: String)
  /// Marks it as read, on the user's behalf.
  case historyRead(of: String)
  case removeDevice(DeviceID, of: String)
  case rules(HTTPRulesVerb, of: String)
  case group(HTTPRulesVerb, String)
  case name(HTTPRulesVerb, of: String)
  /// Its body says to whom.
  case placeCall
  /// A page of the app's live calls; the query says which.
  case liveCalls
  case call(CallAddress)
  case endCall(CallAddress)

  /// The user that it is about; empty where the body says it, or it is about no user.
  package var user: String {
    switch self {
    case .user(let user), .calls(let user), .history(let user), .historyRead(let user),
      .removeDevice(_, let user), .rules(_, let user), .group(_, let user), .name(_, let user):
      user
    case .call(let address), .endCall(let address): address.callee
    case .placeCall, .liveCalls: ""
    }
  }

  /// Its share of the app's rate, in thousandths of a request. A question to all shards costs as much as ten others, or
  /// twice that where they look at all their calls. A history, which is read from the store for each question, costs as
  /// much as three; sessions count histories in the same way.
  var cost: Int64 {
    switch self {
    case .calls: 10_000
    case .liveCalls: 20_000
    case .history, .historyRead: 3000
    case .user, .removeDevice, .rules, .group, .name, .placeCall, .call, .endCall: 1000
    }
  }

  /// - Parameter segments: the segments of the path behind `/v1/app/`.
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
    case ("users", 3) where parts[2] == "history":
      try only("GET")
      return .history(of: try user(parts[1]))
    case ("users", 4) where parts[2] == "history" && parts[3] == "read":
      try only("POST")
      return .historyRead(of: try user(parts[1]))
    case ("users", 3) where parts[2] == "rules":
      return .rules(try HTTPRulesVerb.find(method), of: try user(parts[1]))
    case ("users", 3) where parts[2] == "name":
      return .name(try HTTPRulesVerb.find(method), of: try user(parts[1]))
    case ("groups", 2): return .group(try HTTPRulesVerb.find(method), try user(parts[1]))
    case ("users", 4) where parts[2] == "devices":
      try only("DELETE")
      return .removeDevice(try HTTPRoute.device(parts[3]), of: try user(parts[1]))
    case ("calls", 1):
      switch method {
      case "GET", "HEAD": return .liveCalls
      case "POST": return .placeCall
      default: throw .method(allowed: "GET, POST")
      }
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
  /// - Throws: `forbidden` for a credential that is no server's, or as `HTTPRulesVerb.request`, `HistoryCommand.init`
  ///   and `HTTPBodies`.
  init(
    _ route: HTTPAppRoute, content: [UInt8], by credential: HTTPCredential, query: Substring,
    session: SessionRef, limits: CallLimits
  ) throws(CallError) {
    guard case .server(let claims, _) = credential else { throw CallError(AuthFailure.users) }
    var user = UserKey(app: claims.app, user: route.user)
    let body: Body =
      switch route {
      case .user: .app(.user)
      case .calls: .app(.calls(shard: 0))
      case .history: .history(try HistoryCommand(query: query))
      case .historyRead: .history(try HTTPBodies.historyRead(content))
      case .liveCalls: .app(.live(try LiveCallsQuery(query: query)))
      case .removeDevice(let device, _): .app(.remove(device))
      case .placeCall: .app(.place(try Self.placing(content, for: &user, limits)))
      case .call(let address): .app(.call(address.call))
      case .endCall(let address): .app(.end(address.call))
      case .rules(let verb, _): .rules(try verb.request(content))
      case .group(.get, _): .app(.group)
      case .group(.put, _): .app(.setGroup(try HTTPBodies.callGroup(content)))
      case .group(.delete, _): .app(.setGroup(nil))
      case .name(.get, _): .app(.name)
      case .name(.put, _): .app(.setName(try HTTPBodies.displayName(content)))
      case .name(.delete, _): .app(.setName(""))
      }
    self.init(session: session, request: 1, user: user, device: "", callee: user, body: body)
    self.credential = credential.credential
  }

  /// - Parameter user: becomes the one who is called first.
  private static func placing(
    _ content: [UInt8], for user: inout UserKey, _ limits: CallLimits
  ) throws(CallError) -> AppPlacing {
    let body = try HTTPBodies.placeCall(content, limits)
    user = UserKey(app: user.app, user: body.from)
    return body.request(.random())
  }
}

extension LiveCallsQuery {
  /// The page that a query asks for, of no shard yet.
  /// - Throws: `invalidField`.
  fileprivate init(query: Substring) throws(CallError) {
    let limit = try HTTPRoute.limit(query, Self.limits, "calls", standard: Self.limits.upperBound)
    self.init(limit: limit)
    if let text = HTTPRoute.parameter("before", query: query), !text.isEmpty {
      before = AppCallPlace(text: text)
      if before == nil {
        throw CallError(.invalidField, "`before` is not the `next` of a list of calls.")
      }
    }
  }
}

extension CallID {
  /// A UUID of version 4, as apps choose them.
  fileprivate static func random() -> CallID {
    let (high, low) = (UInt64.random(in: .min ... .max), UInt64.random(in: .min ... .max))
    return CallID(high: high & ~0xf000 | 0x4000, low: low & ~(3 << 62) | 2 << 62)
  }
}
