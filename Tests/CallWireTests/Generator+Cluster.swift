import CallCore
import CallWire

/// Values that nodes say and keep.
extension Generator {
  static let commandKinds = 17 + verbKinds

  mutating func commandBatch() -> CommandBatch {
    let edge = next()
    return CommandBatch(
      edge: edge, secret: chance(50) ? EdgeSecret(high: next(), low: next()) : nil,
      commands: list(5) { $0.command(edge: edge) })
  }

  mutating func command(edge: UInt64, _ kind: Int? = nil) -> Command {
    let kind = kind ?? Int.random(in: 0..<Self.commandKinds, using: &self)
    let user = UserKey(app: text(8), user: self.user())
    var command = Command(
      session: SessionRef(edge: edge, number: next()), request: number(), user: user,
      device: device(), callee: chance(50) ? user : UserKey(app: user.app, user: self.user()),
      body: body(kind))
    if chance(20) { command.after = number() }
    if chance(20) { command.attachedAt = microseconds() }
    command.hasWebhooks = chance(20)
    command.credential = credential()
    return command
  }

  private mutating func credential() -> Credential {
    switch Int.random(in: 0..<4, using: &self) {
    case 0: .ticket(ticket())
    case 1: .token("t" + text(20))
    case 2: .pushCapability("c" + text(20))
    default: .none
    }
  }

  mutating func ticket() -> SessionTicket {
    SessionTicket(
      high: next(), low: next(), expires: UInt32(truncatingIfNeeded: next()) | 1,
      issued: UInt32(truncatingIfNeeded: next()), key: UInt32(truncatingIfNeeded: next()))
  }

  private mutating func body(_ kind: Int) -> Command.Body {
    switch kind {
    case 0: .attach(attach())
    case 1: .sessionClosed(graceful: chance(50))
    case 2: .callerGone(list(4) { $0.call() })
    case 3: .register(registration())
    case 4: .unregister(device())
    case 5: .place(placeRequest())
    case 6: .ack(list(4) { Acknowledgement(call: $0.call(), version: $0.number()) })
    case 7: .calls(shard: UInt32(truncatingIfNeeded: next()))
    case 8:
      .crossed(
        CrossedCall(
          call: call(), caller: self.user(), survivor: call(), by: device(),
          isSurvivorAnswered: chance(50)))
    case 9:
      .merge(MergeRequest(call: call(), merged: call(), caller: self.user(), deviceName: text(10)))
    case 10: .talking(talking())
    // An edge adds the device's name.
    case 11:
      .call(call(), .pull(PullRequest(from: device(), description: body(), deviceName: text(10))))
    case 12: .history(historyCommand())
    case 13: .replaced(ReplacedCall(call: call(), survivor: call(), user: self.user()))
    case 14: .visit(visitRequest())
    case 15: .rules(chance(50) ? .read : .write(userRules()))
    case 16: .app(appRequest())
    default: .call(call(), verb(kind - 17))
    }
  }

  private mutating func attach() -> Attach {
    var attach = Attach(
      forCall: maybe { $0.call() }, deviceName: text(10), client: text(10), announce: chance(50),
      attachedAt: microseconds(), onlyPlaces: chance(50), talking: maybe { $0.talking() },
      ongoing: chance(50) ? OngoingMark(version: number(), showsCalls: chance(50)) : nil,
      history: chance(50) ? HistoryMark(shown: maybe { $0.cursor() }) : nil)
    if chance(50) { attach.userName = chance(50) ? text(10) : "" }
    return attach
  }

  private mutating func historyCommand() -> HistoryCommand {
    chance(20) ? .changed : deviceHistoryCommand()
  }

  private mutating func talking() -> Talking {
    Talking(
      number: number(), calls: list(3) { $0.call() },
      details: list(3) { Talking.Detail(callee: $0.user(), since: $0.microseconds()) })
  }

  mutating func reply() -> Reply {
    switch Int.random(in: 0..<10, using: &self) {
    case 0: .error(error())
    case 1: .done
    case 7: .rules(userRules())
    case 8: .app(appReply())
    case 2:
      .attached(
        forCall: maybe { $0.state() }, ticket: maybe { $0.ticket() },
        ongoing: maybe { $0.ongoing() })
    case 3:
      .registered(
        expiresAt: milliseconds(), removed: list(3) { $0.device() },
        capabilities: PushCapabilities(rawValue: UInt32.random(in: 0..<32, using: &self)))
    case 4: .call(state())
    case 5: .calls(liveCalls())
    case 6: .history(historyPage())
    default: .answer(won: chance(50), state())
    }
  }

  mutating func edgeBatch() -> EdgeBatch {
    EdgeBatch(
      items: list(5) {
        EdgeItem(
          session: $0.next(), body: $0.itemBody(Int.random(in: 0..<8, using: &$0)),
          ringsSince: $0.maybe { $0.microseconds() })
      })
  }

  private mutating func itemBody(_ kind: Int) -> EdgeItem.Body {
    switch kind {
    case 0: .reply(request: number(), reply())
    case 1: .delivery(delivery())
    case 2: .notice(notice())
    case 3: .ongoing(ongoing())
    case 4: .history(historyState())
    case 5: .visit(request: number(), visitAnswer())
    case 7: .name(text(10))
    default: .close(notice())
    }
  }

  private mutating func visitRequest() -> VisitRequest {
    var request = VisitRequest(
      call: call(), callee: user(), caller: user(), answeredBy: maybe { $0.device() },
      busyWhileInCall: maybe { $0.chance(50) })
    request.isMember = chance(50)
    request.consulted = maybe { $0.call() }
    request.isOver = chance(50)
    request.wantsOthers = chance(50)
    request.ringsFor = chance(50) ? .milliseconds(Int64(1 + next() & 0xffff)) : nil
    request.round = chance(50) ? UInt8.random(in: 0...32, using: &self) : 0
    return request
  }

  private mutating func visitAnswer() -> VisitAnswer {
    var answer = VisitAnswer(
      devices: list(3) {
        VisitAnswer.Device(
          id: $0.device(), name: $0.text(10),
          session: $0.chance(50) ? SessionRef(edge: $0.next() | 1, number: $0.number()) : nil,
          registration: $0.maybe { $0.storedRegistration() }, isHeld: $0.chance(50))
      }, isComplete: chance(50), isBusy: chance(50), isInCall: chance(50),
      diverted: maybe { $0.one(of: DivertReason.self) },
      to: list(3) { $0.user() }, noAnswerAfter: .milliseconds(Int64(next() & 0xffff)))
    if chance(50) { answer.ringSlot = .milliseconds(Int64(next() & 0xffff) + 1) }
    return answer
  }

  mutating func heartbeat() -> Heartbeat {
    var heartbeat = Heartbeat(
      node: text(10), role: one(of: NodeRole.self), incarnation: next(),
      state: one(of: NodeState.self), version: text(10),
      shardCount: UInt32(truncatingIfNeeded: next()))
    heartbeat.silentEdges = list(2) {
      SilentEdge(
        edge: $0.next(), since: .milliseconds(Int64(UInt32(truncatingIfNeeded: $0.next()))),
        isLost: $0.chance(50), isUnreachable: $0.chance(50))
    }
    return heartbeat
  }

  mutating func lease() -> Lease {
    Lease(owner: text(10), incarnation: next(), epoch: next(), released: chance(50))
  }

  static let changeKinds = 15

  mutating func entry(_ kind: Int? = nil) -> JournalEntry {
    let kind = kind ?? Int.random(in: 0..<Self.changeKinds, using: &self)
    return JournalEntry(call: call(), change: change(kind))
  }

  mutating func placeRequest() -> PlaceRequest {
    PlaceRequest(
      call: call(), ringTimeoutSeconds: UInt32(truncatingIfNeeded: number()), description: body(),
      headers: headers(), video: chance(50), deviceName: text(10), callerName: text(10),
      receivedAt: maybe { $0.microseconds() }, pushData: body(),
      busyWhileInCall: maybe { $0.chance(50) },
      subscriptions: Subscriptions(rawValue: UInt8(truncatingIfNeeded: next())))
  }

  private mutating func placed() -> PlacedFacts {
    var facts = PlacedFacts(
      callee: UserKey(app: text(8), user: user()), caller: party(), placedAt: microseconds(),
      deadline: microseconds(), video: chance(50), description: body(), headers: headers(),
      legs: list(4) { $0.party() }, fingerprint: next())
    facts.pushData = body()
    facts.isCalleeInCall = chance(50)
    facts.subscriptions = Subscriptions(rawValue: UInt8(truncatingIfNeeded: next()))
    if chance(50) {
      facts.firstAlerting = FirstAlerting(
        leg: UInt8.random(in: 0...254, using: &self), at: microseconds())
    }
    if chance(20) {
      facts.callerRings = Span(microseconds: Int64.random(in: 1...90_000_000, using: &self))
      if chance(50) { facts.onlyDevice = device() }
    }
    facts.isRingFixed = chance(50)
    facts.signalsTaken = list(3) {
      SignalMark(
        fromCaller: $0.chance(50), device: $0.device(), request: $0.next(), content: $0.next())
    }
    return facts
  }

  private mutating func change(_ kind: Int) -> JournalEntry.Change {
    switch kind {
    case 0:
      .placed(placed())
    case 1: .legJoined(party())
    case 2: .alerting(device())
    case 3:
      .answered(
        AnsweredFacts(
          by: party(), at: microseconds(), description: body(), connectDeadline: microseconds(),
          merged: maybe { $0.call() }))
    case 4:
      .legEnded(device(), one(of: LegEnd.self), at: maybe { $0.microseconds() })
    case 5: .connected(caller: chance(50))
    case 6: .ended(ended())
    case 7:
      .signal(
        fromCaller: chance(50), device(),
        Signal(
          index: number(), kind: one(of: SignalKind.self), body: body(),
          request: chance(50) ? next() : 0))
    case 8: .callerLost(until: maybe { $0.microseconds() })
    case 9: .winnerLost(until: maybe { $0.microseconds() })
    case 10:
      .moved(
        MovedFacts(
          ofCaller: chance(50), from: party(), to: party(), at: microseconds(), description: body(),
          connectDeadline: microseconds(), command: next()))
    case 11: .recorded
    case 12:
      .diverted(diverted())
    case 13:
      .transferEnded(
        TransferEnd(reason: one(of: EndReason.self), by: maybe { $0.party() }, at: microseconds()))
    default: .settled
    }
  }

  fileprivate mutating func ended() -> EndedFacts {
    EndedFacts(
      reason: one(of: EndReason.self), by: maybe { $0.party() }, at: microseconds(),
      missed: chance(50), survivor: maybe { $0.call() },
      unreachable: maybe { $0.one(of: UnreachableCause.self) }, byApp: chance(30))
  }

  private mutating func diverted() -> DivertedFacts {
    var diverted = DivertedFacts(
      from: user(), to: list(3) { $0.user() }, reason: one(of: DivertReason.self),
      by: maybe { $0.party() }, at: microseconds(), deadline: microseconds())
    diverted.queue = list(3) { $0.user() }
    diverted.ringSlot = .milliseconds(Int64(next() & 0xffff))
    diverted.device = maybe { $0.device() }
    diverted.consulted = maybe { $0.consulted() }
    return diverted
  }

  mutating func journalRecord() -> JournalRecord {
    JournalRecord(
      epoch: next(), number: next(), writer: text(10), at: microseconds(),
      entries: list(5) { $0.entry() }, released: chance(20))
  }

  mutating func checkpoint() -> Checkpoint {
    Checkpoint(sequence: next(), epoch: next(), entries: list(8) { $0.entry() })
  }

  mutating func storedRegistration() -> Registration {
    var stored = Registration(
      user: UserKey(app: text(8), user: user()), device: device(), request: registration(),
      registeredAt: microseconds(), seenAt: microseconds())
    stored.hasWebhooks = chance(50)
    stored.standings = list(2) {
      TokenStanding(
        fingerprint: $0.text(32), isProven: $0.chance(50), refusals: UInt32($0.next() & 0xff),
        refusedAt: $0.microseconds())
    }
    return stored
  }
}

extension Generator {
  mutating func appEvent() -> AppEvent {
    let kind = one(of: AppEventKind.self)
    if kind == .gone {
      let gone = GoneRegistration(
        device: device(), deviceName: text(8), cause: one(of: GoneCause.self),
        provider: one(of: PushProvider.self), isVoIP: chance(50), fingerprint: text(32),
        registeredAt: microseconds())
      return AppEvent(gone, of: UserKey(app: text(8), user: user()), at: microseconds())
    }
    var event = AppEvent(
      call: call(), kind: kind, at: microseconds(), callee: UserKey(app: text(8), user: user()),
      caller: party(), video: chance(50), placedAt: microseconds(), by: maybe { $0.party() })
    event.answeredAt = maybe { $0.microseconds() }
    event.reason = maybe { $0.one(of: EndReason.self) }
    event.missed = chance(50)
    event.survivor = maybe { $0.call() }
    event.diversions = list(2) { $0.diversion() }
    return event
  }

  mutating func webhookProgress() -> WebhookProgress {
    var progress = WebhookProgress(app: text(8), host: text(8), since: microseconds())
    progress.owner = text(8)
    progress.next = next()
    progress.open = list(5) {
      WebhookProgress.Place(sequence: $0.next(), index: UInt32(truncatingIfNeeded: $0.next()))
    }
    (progress.delivered, progress.failures, progress.deadLetters) = (next(), next(), next())
    progress.oldest = maybe { $0.microseconds() }
    progress.lastFailure = text(12)
    progress.writtenAt = microseconds()
    return progress
  }
}

extension Generator {
  mutating func callRecord() -> CallRecord {
    let legs = list(4) { $0.recordLeg() }
    var record = CallRecord(
      call: call(), callee: UserKey(app: text(8), user: user()), caller: party(), video: chance(50),
      placedAt: microseconds(), legs: legs)
    record.answer = maybe {
      .init(by: $0.party(), at: $0.microseconds(), merged: $0.maybe { $0.call() })
    }
    record.end = maybe { $0.ended() }
    record.diversions = list(3) { $0.diversion() }
    record.events = list(6) { $0.recordEvent(legs: legs.count) }
    record.eventsDropped = Int(number() & 0xFFFF)
    return record
  }

  fileprivate mutating func diversion() -> CallRecord.Diversion {
    var diversion = CallRecord.Diversion(
      from: user(), to: list(3) { $0.user() }, reason: one(of: DivertReason.self),
      by: maybe { $0.party() }, at: microseconds())
    if chance(30) { diversion.takenBy = party() }
    if chance(30) { diversion.failed = one(of: EndReason.self) }
    return diversion
  }

  private mutating func recordLeg() -> CallRecord.Leg {
    var leg = CallRecord.Leg(party: party(), fate: one(of: LegFate.self), endedAt: microseconds())
    if chance(50) { leg.pushedAt = microseconds() }
    if chance(50) { leg.invitedAt = microseconds() }
    if chance(50) { leg.deliveredAt = microseconds() }
    if chance(50) { leg.alertedAt = microseconds() }
    return leg
  }

  private mutating func recordEvent(legs: Int) -> CallRecord.Event {
    let who: CallRecord.Who =
      switch Int.random(in: 0...3, using: &self) {
      case 0: .call
      case 1: .caller
      case 2: .device(device())
      default: .leg(Int.random(in: 0...legs, using: &self))
      }
    return CallRecord.Event(
      one(of: CallEventKind.self), offset: UInt32(truncatingIfNeeded: next()), who: who,
      purpose: chance(30) ? one(of: PushPurpose.self) : nil, reason: text(12))
  }
}
