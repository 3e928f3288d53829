internal import CallClient
internal import CallCore
internal import CallJudge
internal import CallWire

/// The app's server: it has users' rules and names stored, places calls between two users, ends some, and reads what there
/// is of calls and histories.
final class SimAppServer: SimActor {
  let world: SimWorld
  private let edges: [SimEdge]
  private let token: String
  private var random: SimRandom
  var onEvent: (AppServerEvent) -> Void = { _ in }

  init(_ world: SimWorld, _ edges: [SimEdge], _ options: SimOptions) {
    self.world = world
    self.edges = edges
    token = options.serverToken
    random = world.fork("app server")
  }

  func ask(_ errand: AppErrand) {
    world.note("app server", call: errand.call, "asks: \(errand.text)")
    onEvent(.asked(errand))
    attempt(errand, left: 6)
  }

  /// Every request may be repeated, at any edge.
  private func attempt(_ errand: AppErrand, left: Int) {
    guard left > 0 else {
      world.count("app server.gave up")
      return onEvent(.gaveUp(errand))
    }
    let again: () -> Void = { [weak self] in
      guard let self else { return }
      later(random.span(.milliseconds(100), .milliseconds(800))) {
        $0.attempt(errand, left: left - 1)
      }
    }
    guard let edge = random.pick(edges.filter(\.listens)) else { return again() }
    let since = world.now
    edge.perform(errand.request(token), by: "app server", seed: random.next()) {
      [weak self] response in
      guard let self else { return }
      guard let response, let answer = errand.answer(response) else { return again() }
      if case .error(let error) = answer, error.code.asksForRetry { return again() }
      world.note("app server", call: errand.call, "hears \(answer.text)")
      onEvent(.answered(errand, answer, since: since))
      follow(errand, answer)
    }
  }

  /// It reads a list to its end, and what it has read of a history it marks as read now and then.
  private func follow(_ errand: AppErrand, _ answer: AppAnswer) {
    switch (errand, answer) {
    case (.live, .calls(let list)): list.next.map { ask(.live(before: $0)) }
    case (.history(_, let user), .history(let page)):
      if let next = page.next { return ask(.history(before: next, of: user)) }
      if let newest = page.items.first?.cursor, random.chance(0.5) {
        ask(.markRead(newest, of: user))
      }
    default: break
    }
  }
}

extension AppErrand {
  fileprivate func request(_ token: String) -> EdgeRequest {
    func request(_ method: String, _ path: String, _ body: [UInt8] = []) -> EdgeRequest {
      EdgeRequest(method: method, path: "/v1/app/\(path)", bearer: token, body: body)
    }
    func user(_ user: String) -> String { PercentEncoding.encode(user) }
    return switch self {
    case .rules(let rules, let of) where rules.isEmpty:
      request("DELETE", "users/\(user(of))/rules")
    case .rules(let rules, let of):
      request("PUT", "users/\(user(of))/rules", HTTPBodies.userRules(rules))
    case .name(let name, let of):
      request("PUT", "users/\(user(of))/name", HTTPBodies.displayName(name))
    case .place(let body): request("POST", "calls", HTTPBodies.encode(body))
    case .end(let address): request("POST", "calls/\(user(address.callee))/\(address.call)/end")
    case .look(let address): request("GET", "calls/\(user(address.callee))/\(address.call)")
    case .live(let before):
      request("GET", "calls?limit=\(Self.pageSize)\(Self.query(before?.text))")
    case .calls(let of): request("GET", "users/\(user(of))/calls")
    case .history(let before, let of):
      request("GET", "users/\(user(of))/history?limit=\(Self.pageSize)\(Self.query(before?.text))")
    case .markRead(let cursor, let of):
      request(
        "POST", "users/\(user(of))/history/read",
        HTTPBodies.encode(readUpTo: cursor))
    }
  }

  private static func query(_ before: String?) -> String {
    before.map { "&before=\(PercentEncoding.encode($0))" } ?? ""
  }

  /// nil: it is to be asked again.
  fileprivate func answer(_ response: EdgeResponse) -> AppAnswer? {
    guard response.status == 200 else {
      return HTTPBodies.readError(response.body).map(AppAnswer.error)
    }
    return switch self {
    case .rules: HTTPBodies.readUserRules(response.body).map(AppAnswer.rules)
    case .name: HTTPBodies.readDisplayName(response.body).map(AppAnswer.name)
    case .place, .end, .look: HTTPBodies.readAppCall(response.body).map(AppAnswer.call)
    case .live, .calls: HTTPBodies.readAppCalls(response.body).map(AppAnswer.calls)
    case .history, .markRead: HTTPBodies.readHistory(response.body).map(AppAnswer.history)
    }
  }

  fileprivate var text: String {
    switch self {
    case .rules(let rules, let user): "rules of \(Who(user, "")): \(SimText.text(rules))"
    case .name(let name, let user): "name of \(Who(user, "")): \(name)"
    case .place(let body): "a call from \(Who(body.from, "")) to \(Who(body.to, ""))"
    case .end: "the end"
    case .look: "what becomes of it"
    case .live(let before): "for live calls\(before == nil ? "" : ", further ones")"
    case .calls(let user): "for the live calls of \(Who(user, ""))"
    case .history(let before, let user):
      "for the history of \(Who(user, ""))\(before == nil ? "" : ", further calls")"
    case .markRead(let cursor, let user): "\(Who(user, "")) has read up to \(cursor.text)"
    }
  }
}

extension AppAnswer {
  fileprivate var text: String {
    switch self {
    case .rules(let rules): "rules: \(SimText.text(rules))"
    case .name(let name): "name: \(name)"
    case .call(let call): SimText.text(call.state)
    case .calls(let list):
      "\(list.calls.count) calls\(list.next == nil ? "" : ", and there are more")"
    case .history(let page):
      "\(page.items.count) calls, \(page.state.unread) unread, read up to \(page.readUpTo.text)"
    case .error(let error): "error \(error.code.name)"
    }
  }
}
