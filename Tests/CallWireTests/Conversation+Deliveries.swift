import CallCore
import CallWire

/// Messages that devices receive.
extension Conversation {
  // MARK: What devices hear

  mutating func perform(_ outcome: inout Outcome) throws {
    let effects = outcome.effects
    outcome.removeAll()
    var later: [HistoryEffect] = []
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
        if case .invite(let invite) = delivery.event, invite.transferredBy == nil {
          sessions[session.number]?.rung.append((delivery.call, invite.caller))
          try reportCrossings(session)
        }
      case .showOngoing(let session, let ongoing): tell(session, .ongoing(ongoing))
      // The edge keeps it.
      case .showName: break
      // The store answers later.
      case .history(let effect): later.append(effect)
      case .notice(let session, let notice): tell(session, .notice(notice))
      case .close(let session, let notice):
        tell(session, .notice(notice))
        if let gone = sessions.removeValue(forKey: session.number) {
          hear(gone.device, "close 4000")
        }
      case .store(_, let token), .remove(_, _, let token), .storeRules(_, _, let token):
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
      case .tell(let user, let device, let body, _):
        // The machine has the shards of all users.
        try send(body, of: user, device, to: user, SessionRef(edge: 0, number: 0))
      // The machine has the shards of all users.
      case .visit(let user, let request):
        let question = Command(
          session: SessionRef(edge: 0, number: 0), request: 1, user: user, device: "", callee: user,
          body: .visit(request))
        var asked = Outcome()
        machine.handle(question, now: now, into: &asked)
        for case .visitAnswer(_, _, let answer) in asked.effects {
          var answered = Outcome()
          machine.visited(user, answer, to: request, now: now, into: &answered)
          try perform(&answered)
        }
      case .visitAnswer: break
      case .push, .withdrawPushes, .releaseToken, .record, .events, .deviceEvent: break
      }
    }
    for effect in later { try perform(effect) }
  }

  /// Reports to the shard of a call that gives way to a crossing one, as an edge does.
  private mutating func reportCrossings(_ ref: SessionRef) throws {
    guard let session = sessions[ref.number] else { return }
    let user = session.user
    for placed in session.calls {
      for rung in session.rung where rung.caller.user == placed.callee.user {
        let isFirst = Crossing.survives(
          placed.call, caller: user.user, over: rung.call, caller: rung.caller.user)
        let crossed =
          isFirst
          ? CrossedCall(
            call: rung.call, caller: rung.caller.user, survivor: placed.call, by: session.device)
          : CrossedCall(
            call: placed.call, caller: user.user, survivor: rung.call, by: rung.caller.device)
        let callee = isFirst ? user : placed.callee
        try send(.crossed(crossed), of: user, session.device, to: callee, ref)
      }
    }
  }

  private mutating func send(
    _ body: Command.Body, of user: UserKey, _ device: DeviceID, to callee: UserKey,
    _ ref: SessionRef
  ) throws {
    var outcome = Outcome()
    let command = Command(
      session: ref, request: 0, user: user, device: device, callee: callee, body: body)
    machine.handle(command, now: now, into: &outcome)
    try perform(&outcome)
  }

  mutating func acknowledge(_ ref: SessionRef, _ delivery: Delivery) throws {
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

  func reply(_ reply: Reply, _ ref: SessionRef) throws -> ServerReply {
    guard let session = sessions[ref.number] else {
      throw Failure(description: "a reply to no session")
    }
    switch reply {
    case .error(let error): return .error(error)
    case .done: return .done
    case .history(let page): return .history(page)
    case .attached(let forCall, _, let ongoing):
      let name = "\(String(Self.edge, radix: 16))-\(String(ref.number, radix: 16))"
      return .attached(
        AttachedInfo(
          session: name, user: session.user.user, device: session.device, pingSeconds: 25,
          serverTime: now, forCall: forCall, ongoing: ongoing))
    case .registered(let expiresAt, let removed, let capabilities):
      return .registered(
        RegisteredInfo(
          device: session.device, expiresAt: expiresAt, removed: removed, capabilities: capabilities
        ))
    case .call(let state): return .call(state)
    case .answer(let won, let state): return .answer(won: won, state)
    case .calls(let live): return .calls(live)
    case .rules(let rules): return .rules(rules)
    case .app: throw Failure(description: "a device does not ask for that")
    }
  }

  mutating func tell(_ ref: SessionRef, _ frame: ServerFrame) {
    // A frame for a session that is gone reaches nobody.
    guard let session = sessions[ref.number] else { return }
    hear(session.device, Self.text(DeviceCodec.json.encode(frame)))
  }

  mutating func hear(_ device: DeviceID, _ text: String) {
    let padding = String(repeating: " ", count: max(0, 10 - device.text.count))
    lines.append("\(device)\(padding) <- \(text)")
  }

  static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
