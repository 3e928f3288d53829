import CallCore
import CallWire

/// Frames and HTTP requests of devices.
extension Conversation {
  // MARK: Frames

  mutating func say(_ device: DeviceID, _ text: String) throws {
    let frame: ClientFrame
    do throws(FrameError) {
      frame = try DeviceCodec.json.decodeClient(Array(text.utf8))
    } catch {
      return hear(
        device,
        Self.text(DeviceCodec.json.encode(ServerFrame.reply(id: error.id, .error(error.error)))))
    }
    if case .attach(let request) = frame.command { open(device, name: request.deviceName) }
    if case .detach = frame.command { return try detach(device, frame.id) }
    if case .ping = frame.command {
      return hear(
        device, Self.text(DeviceCodec.json.encode(ServerFrame.reply(id: frame.id, .done))))
    }
    var outcome = Outcome()
    for (callee, body) in try commands(frame.command, device) {
      send(device, request: frame.id, callee: callee, body, &outcome)
    }
    try perform(&outcome)
  }

  /// As the edge forwards them.
  mutating func commands(
    _ command: ClientCommand, _ device: DeviceID
  ) throws -> [(callee: UserKey?, body: Command.Body)] {
    guard let number = current[device], let session = sessions[number] else {
      throw Failure(description: "\(device) is not attached")
    }
    func key(_ address: CallAddress) -> UserKey {
      address.callee.isEmpty
        ? session.user : UserKey(app: session.user.app, user: address.callee)
    }
    switch command {
    case .attach(let request):
      let attach = Attach(
        forCall: request.forCall, deviceName: request.deviceName, client: request.client,
        attachedAt: now, onlyPlaces: request.onlyPlaces,
        ongoing: request.wantsOngoing ? OngoingMark() : nil,
        history: request.wantsHistory ? HistoryMark() : nil)
      if request.wantsHistory { machine.storedParts = .history }
      return [(nil, .attach(attach))]
    case .place(let call, var request):
      request.deviceName = session.deviceName
      if machine.storedParts.contains(.history) { request.subscriptions = .history }
      if let choice = terms.secondCalls { request.busyWhileInCall = choice == .busy }
      request.forward = hookForwards
      sessions[number]?.calls.append((key(call), call.call))
      return [(key(call), .place(request))]
    case .ack(let items):
      return items.map {
        (key($0.call), .ack([Acknowledgement(call: $0.call.call, version: $0.version)]))
      }
    case .call(let call, .pull(var request)):
      request.deviceName = session.deviceName
      return [(key(call), .call(call.call, .pull(request)))]
    case .call(let call, .transfer(var request)):
      if request.consulted?.callee.isEmpty == true { request.consulted?.callee = session.user.user }
      return [(key(call), .call(call.call, .transfer(request)))]
    case .call(let call, let verb):
      if verb == .resume { sessions[number]?.calls.append((key(call), call.call)) }
      return [(key(call), .call(call.call, verb))]
    case .register(let request): return [(nil, .register(Self.withFingerprints(request)))]
    case .unregister(let other): return [(nil, .unregister(other ?? device))]
    // One shard is all that there are here.
    case .calls: return [(nil, .calls(shard: 0))]
    case .history(let body): return [(nil, .history(body))]
    case .rules(let request): return [(nil, .rules(request))]
    case .detach, .ping, .renew: return []
    }
  }

  /// An edge hashes the tokens; here any text will do that is the same for the same token.
  static func withFingerprints(_ request: RegistrationRequest) -> RegistrationRequest {
    var request = request
    if let token = request.voipToken?.token { request.voipToken?.fingerprint = token }
    if let token = request.alertToken?.token { request.alertToken?.fingerprint = token }
    return request
  }

  mutating func send(
    _ device: DeviceID, request: UInt64, callee: UserKey? = nil, _ body: Command.Body,
    _ outcome: inout Outcome
  ) {
    guard let number = current[device], let session = sessions[number] else { return }
    machine.handle(
      Command(
        session: SessionRef(edge: Self.edge, number: number), request: request,
        user: session.user, device: device, callee: callee ?? session.user, body: body),
      now: now, into: &outcome)
  }

  // MARK: HTTP

  mutating func request(_ device: DeviceID, _ parts: [String]) throws {
    let body = parts.count > 2 ? Array(parts[2].utf8) : []
    var user = UserKey(app: "demo", user: String(device.text.split(separator: "-")[0]))
    let (callee, command): (String, Command.Body)
    do throws(CallError) {
      (callee, command) = try self.command(parts[0], parts[1], body, user)
    } catch {
      return hear(device, "400 " + Self.text(HTTPBodies.error(error)))
    }
    let key = UserKey(app: "demo", user: callee)
    var sender = device
    // The app's server asks in the name of no device, about a user.
    if case .app = command { (user, sender) = (key, "") }
    lastSession += 1
    var outcome = Outcome()
    machine.handle(
      Command(
        session: SessionRef(edge: Self.edge, number: lastSession), request: 1, user: user,
        device: sender, callee: key, body: command), now: now, into: &outcome)
    requests[lastSession] = device
    // Its answer comes on a connection of its own: it waits for nobody.
    let number = lastSession
    let isAnswer: (Effect) -> Bool = {
      if case .reply(let session, _, _) = $0 { session.number == number } else { false }
    }
    outcome.effects = outcome.effects.filter(isAnswer) + outcome.effects.filter { !isAnswer($0) }
    try perform(&outcome)
  }

  func command(
    _ method: String, _ target: String, _ body: [UInt8], _ user: UserKey
  ) throws(CallError) -> (callee: String, Command.Body) {
    let path = target.split(separator: "?")[0].split(separator: "/").map(String.init)
    if path == ["v1", "devices"] {
      let request = try HTTPBodies.register(body).request
      return (user.user, .register(Self.withFingerprints(request)))
    }
    if path == ["v1", "history"] {
      return (user.user, .history(.list(before: nil, limit: 0)))
    }
    if path == ["v1", "history", "read"] {
      return (user.user, .history(try HTTPBodies.historyRead(body)))
    }
    if path == ["v1", "rules"] {
      return (user.user, .rules(method == "PUT" ? .write(try HTTPBodies.userRules(body)) : .read))
    }
    if path.count == 4, path[1...2] == ["app", "groups"] {
      return (path[3], .app(method == "PUT" ? .setGroup(try HTTPBodies.callGroup(body)) : .group))
    }
    guard path.count >= 4, path[1] == "calls", let call = CallID(path[3]) else {
      throw CallError(.noSuchResource)
    }
    if method == "GET" { return (path[2], .call(call, .query)) }
    if path[4] == "busy" { return (path[2], .call(call, .busy)) }
    return (path[2], .call(call, .decline(try HTTPBodies.decline(body).scope)))
  }

  /// The answer of an edge to an HTTP request.
  func answer(_ reply: Reply, _ device: DeviceID) -> String {
    switch reply {
    case .registered(let expiresAt, let removed, let capabilities):
      "200 "
        + Self.text(
          HTTPBodies.registered(
            RegisteredInfo(
              device: device, expiresAt: expiresAt, removed: removed, capabilities: capabilities)))
    case .call(let state): "200 " + Self.text(HTTPBodies.callState(state))
    case .error(let error): "400 " + Self.text(HTTPBodies.error(error))
    case .history(let page): "200 " + Self.text(HTTPBodies.history(page))
    case .rules(let rules): "200 " + Self.text(HTTPBodies.userRules(rules))
    case .app(let reply): "200 " + Self.text(HTTPBodies.app(reply))
    case .done, .attached, .answer, .calls: "200 {}"
    }
  }
}
