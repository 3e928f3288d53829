import CallCore
import CallWire

/// Plays a conversation of docs/device-protocol.md against the rules themselves: what devices say
/// goes through the codec into a real `ShardMachine`, and what it tells them comes back as the lines
/// that the document has to show.
///
/// Lines are `device -> frame`, `device <- frame`, and `# …` for what else happens. A device's user
/// is its name up to the dash.
struct Conversation {
  struct Failure: Error, CustomStringConvertible { var description: String }

  private struct Session {
    var number: UInt64
    var device: DeviceID
    var user: UserKey
    var deviceName: String
    /// What it placed or resumed, for when it breaks.
    var calls: [(callee: UserKey, call: CallID)] = []
  }

  private var machine: ShardMachine
  private var now = Timestamp(microseconds: 1_790_000_000_000_000)
  private var lastSession: UInt64 = 0
  private var sessions: [UInt64: Session] = [:]
  /// Who waits for the answer to an HTTP request.
  private var requests: [UInt64: DeviceID] = [:]
  private var current: [DeviceID: UInt64] = [:]
  /// What the bucket of tokens would hold, by fingerprint.
  private var owners: [String: TokenOwner] = [:]
  private let acksAreLeftOut: Bool
  private var lines: [String] = []

  private static let edge: UInt64 = 0x51a7
  private static let names = [
    "ann-phone": "Ann's phone", "bob-phone": "Bob's phone", "bob-tablet": "Bob's tablet",
    "bob-watch": "Bob's watch", "carol-phone": "Carol's phone",
  ]

  /// The whole transcript that belongs to the document's lines.
  static func play(_ script: [String], acksAreLeftOut: Bool) throws -> [String] {
    var conversation = Conversation(acksAreLeftOut: acksAreLeftOut)
    for line in script where !line.contains(" <- ") { try conversation.take(line) }
    return conversation.lines
  }

  private init(acksAreLeftOut: Bool) {
    self.acksAreLeftOut = acksAreLeftOut
    machine = ShardMachine(shard: 0, epoch: 1, limits: CallLimits())
    var outcome = Outcome()
    machine.begin(now: now, into: &outcome)
  }

  private mutating func take(_ line: String) throws {
    lines.append(line)
    if line.hasPrefix("# ") { return try happen(String(line.dropFirst(2))) }
    let sides = line.split(separator: " -> ", maxSplits: 1)
    guard sides.count == 2 else { throw Failure(description: "unreadable: \(line)") }
    let device = DeviceID(String(sides[0].split(separator: " ")[0]))
    let text = String(sides[1])
    try pass(.milliseconds(20))
    if text.hasPrefix("{") {
      try say(device, text)
    } else {
      try request(device, text.split(separator: " ", maxSplits: 2).map(String.init))
    }
  }

  // MARK: What happens beside frames

  private mutating func happen(_ what: String) throws {
    let words = what.split { " ,".contains($0) }.map(String.init)
    if words.count >= 3, words[1].hasPrefix("second"), words[2].hasPrefix("pass") {
      guard let seconds = Int64(words[0]) else { throw Failure(description: what) }
      return try pass(.seconds(seconds))
    }
    if what.contains("loses its connection") { return try lose(DeviceID(words[0])) }
    if what.contains("are attached") || what.contains("is attached") {
      for word in words where word.contains("-") { attachSilently(DeviceID(word)) }
    }
    // Everything else is for the reader.
  }

  private mutating func pass(_ span: Span) throws {
    let end = now + span
    while machine.nextDeadline <= end {
      now = max(now, machine.nextDeadline)
      var outcome = Outcome()
      machine.fire(now: now, into: &outcome)
      try perform(&outcome)
    }
    now = end
  }

  private mutating func attachSilently(_ device: DeviceID) {
    open(device, name: Self.names[device.text] ?? "")
    var outcome = Outcome()
    send(device, request: 0, .attach(Attach(deviceName: Self.names[device.text] ?? "")), &outcome)
  }

  private mutating func open(_ device: DeviceID, name: String) {
    lastSession += 1
    let user = UserKey(app: "demo", user: String(device.text.split(separator: "-")[0]))
    sessions[lastSession] = Session(
      number: lastSession, device: device, user: user, deviceName: name)
    current[device] = lastSession
  }

  /// The edge replies, closes, and says farewell.
  private mutating func detach(_ device: DeviceID, _ id: UInt64) throws {
    hear(device, Self.text(DeviceCodec.json.encode(ServerFrame.reply(id: id, .done))))
    hear(device, "close 1000")
    try lose(device, graceful: true)
  }

  private mutating func lose(_ device: DeviceID, graceful: Bool = false) throws {
    guard let number = current.removeValue(forKey: device),
      let session = sessions.removeValue(forKey: number)
    else { throw Failure(description: "\(device) is not attached") }
    var outcome = Outcome()
    let ref = SessionRef(edge: Self.edge, number: number)
    machine.handle(
      Command(
        session: ref, request: 0, user: session.user, device: device, callee: session.user,
        body: .sessionClosed(graceful: graceful)), now: now, into: &outcome)
    for placed in session.calls {
      machine.handle(
        Command(
          session: ref, request: 0, user: session.user, device: device, callee: placed.callee,
          body: .callerGone([placed.call])), now: now, into: &outcome)
    }
    try perform(&outcome)
  }

  // MARK: Frames

  private mutating func say(_ device: DeviceID, _ text: String) throws {
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
  private mutating func commands(
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
        attachedAt: now)
      return [(nil, .attach(attach))]
    case .place(let call, var request):
      request.deviceName = session.deviceName
      sessions[number]?.calls.append((key(call), call.call))
      return [(key(call), .place(request))]
    case .ack(let items):
      return items.map {
        (key($0.call), .ack([Acknowledgement(call: $0.call.call, version: $0.version)]))
      }
    case .call(let call, let verb):
      if verb == .resume { sessions[number]?.calls.append((key(call), call.call)) }
      return [(key(call), .call(call.call, verb))]
    case .register(let request): return [(nil, .register(Self.withFingerprints(request)))]
    case .unregister(let other): return [(nil, .unregister(other ?? device))]
    // One shard is all that there are here.
    case .calls: return [(nil, .calls(shard: 0))]
    case .detach, .ping, .renew: return []
    }
  }

  /// An edge hashes the tokens; here any text will do that is the same for the same token.
  private static func withFingerprints(_ request: RegistrationRequest) -> RegistrationRequest {
    var request = request
    if let token = request.voipToken?.token { request.voipToken?.fingerprint = token }
    if let token = request.alertToken?.token { request.alertToken?.fingerprint = token }
    return request
  }

  private mutating func send(
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

  private mutating func request(_ device: DeviceID, _ parts: [String]) throws {
    let body = parts.count > 2 ? Array(parts[2].utf8) : []
    let user = UserKey(app: "demo", user: String(device.text.split(separator: "-")[0]))
    let (callee, command): (String, Command.Body)
    do throws(CallError) {
      (callee, command) = try self.command(parts[0], parts[1], body, user)
    } catch {
      return hear(device, "400 " + Self.text(HTTPBodies.error(error)))
    }
    lastSession += 1
    var outcome = Outcome()
    machine.handle(
      Command(
        session: SessionRef(edge: Self.edge, number: lastSession), request: 1, user: user,
        device: device, callee: UserKey(app: "demo", user: callee), body: command),
      now: now, into: &outcome)
    requests[lastSession] = device
    // Its answer comes on a connection of its own: it waits for nobody.
    let number = lastSession
    let isAnswer: (Effect) -> Bool = {
      if case .reply(let session, _, _) = $0 { session.number == number } else { false }
    }
    outcome.effects = outcome.effects.filter(isAnswer) + outcome.effects.filter { !isAnswer($0) }
    try perform(&outcome)
  }

  private func command(
    _ method: String, _ target: String, _ body: [UInt8], _ user: UserKey
  ) throws(CallError) -> (callee: String, Command.Body) {
    let path = target.split(separator: "?")[0].split(separator: "/").map(String.init)
    if path == ["v1", "devices"] {
      let request = try HTTPBodies.register(body).request
      return (user.user, .register(Self.withFingerprints(request)))
    }
    guard path.count >= 4, path[1] == "calls", let call = CallID(path[3]) else {
      throw CallError(.noSuchResource)
    }
    if method == "GET" { return (path[2], .call(call, .query)) }
    if path[4] == "busy" { return (path[2], .call(call, .busy)) }
    return (path[2], .call(call, .decline(try HTTPBodies.decline(body).scope)))
  }

  /// What an edge answers an HTTP request.
  private func answer(_ reply: Reply, _ device: DeviceID) -> String {
    switch reply {
    case .registered(let expiresAt, let removed, let capabilities):
      "200 "
        + Self.text(
          HTTPBodies.registered(
            RegisteredInfo(
              device: device, expiresAt: expiresAt, removed: removed, capabilities: capabilities)))
    case .call(let state): "200 " + Self.text(HTTPBodies.callState(state))
    case .error(let error): "400 " + Self.text(HTTPBodies.error(error))
    case .done, .attached, .answer, .calls: "200 {}"
    }
  }

  // MARK: What devices hear

  private mutating func perform(_ outcome: inout Outcome) throws {
    let effects = outcome.effects
    outcome.removeAll()
    for effect in effects {
      switch effect {
      case .reply(let session, let request, let reply):
        if let device = requests.removeValue(forKey: session.number) {
          hear(device, answer(reply, device))
          continue
        }
        tell(session, .reply(id: request, try self.reply(reply, session)))
      case .deliver(let session, let delivery):
        tell(session, .delivery(delivery))
        if acksAreLeftOut { try acknowledge(session, delivery) }
      case .notice(let session, let notice): tell(session, .notice(notice))
      case .close(let session, let notice):
        tell(session, .notice(notice))
        if let gone = sessions.removeValue(forKey: session.number) {
          hear(gone.device, "close 4000")
        }
      case .store(_, let token), .remove(_, _, let token):
        var stored = Outcome()
        machine.registrationStored(token: token, ok: true, now: now, into: &stored)
        try perform(&stored)
      case .token(let step, let token):
        var done = Outcome()
        let result: TokenStepResult
        switch step {
        case .read(let fingerprint, _): result = .read(owners[fingerprint], revision: 0)
        case .notify: result = .notified
        case .claim(let fingerprint, let owner, _):
          owners[fingerprint] = owner
          result = .claimed
        }
        machine.tokenStepDone(token: token, result, now: now, into: &done)
        try perform(&done)
      case .push, .withdrawPushes, .releaseToken: break
      }
    }
  }

  private mutating func acknowledge(_ ref: SessionRef, _ delivery: Delivery) throws {
    guard let session = sessions[ref.number] else { return }
    var outcome = Outcome()
    machine.handle(
      Command(
        session: ref, request: 0, user: session.user, device: session.device,
        callee: UserKey(app: session.user.app, user: delivery.callee),
        body: .ack([Acknowledgement(call: delivery.call, version: delivery.version)])), now: now,
      into: &outcome)
    try perform(&outcome)
  }

  private func reply(_ reply: Reply, _ ref: SessionRef) throws -> ServerReply {
    guard let session = sessions[ref.number] else {
      throw Failure(description: "a reply to no session")
    }
    switch reply {
    case .error(let error): return .error(error)
    case .done: return .done
    case .attached(let forCall, _):
      let name = "\(String(Self.edge, radix: 16))-\(String(ref.number, radix: 16))"
      return .attached(
        AttachedInfo(
          session: name, user: session.user.user, device: session.device, pingSeconds: 25,
          serverTime: now, forCall: forCall))
    case .registered(let expiresAt, let removed, let capabilities):
      return .registered(
        RegisteredInfo(
          device: session.device, expiresAt: expiresAt, removed: removed, capabilities: capabilities
        ))
    case .call(let state): return .call(state)
    case .answer(let won, let state): return .answer(won: won, state)
    case .calls(let live): return .calls(live)
    }
  }

  private mutating func tell(_ ref: SessionRef, _ frame: ServerFrame) {
    // What is said to a session that is gone reaches nobody.
    guard let session = sessions[ref.number] else { return }
    hear(session.device, Self.text(DeviceCodec.json.encode(frame)))
  }

  private mutating func hear(_ device: DeviceID, _ text: String) {
    let padding = String(repeating: " ", count: max(0, 10 - device.text.count))
    lines.append("\(device)\(padding) <- \(text)")
  }

  private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
