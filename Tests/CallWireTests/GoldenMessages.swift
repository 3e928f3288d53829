import CallCore
import CallWire

/// Messages between nodes, one of each kind.
extension GoldenValues {
  private static let onWire = Timestamp(microseconds: 1_790_000_000_123_000)

  static let commands: [Named<Command>.Element] = bodies.all.map { name, body in
    (
      name,
      Command(
        session: SessionRef(edge: 7, number: 300), request: 12, user: bob, device: "bob-phone",
        callee: name.hasPrefix("caller.") ? UserKey(app: "demo", user: "ann") : bob, body: body)
    )
  }

  private static let bodies: Named<Command.Body> = [
    "attach": .attach(
      Attach(
        forCall: call, deviceName: "Bob's phone", client: "CallmeshSwift 1.0", announce: true,
        attachedAt: at)),
    "sessionClosed": .sessionClosed(graceful: true),
    "caller.gone": .callerGone([call]),
    "register": .register(registration.request),
    "unregister": .unregister("bob-tablet"),
    "caller.place": .place(
      PlaceRequest(
        call: call, ringTimeoutSeconds: 45, description: "v=0\r\n",
        headers: [CustomHeader(name: "X-Team", value: "support")], video: true,
        deviceName: "Bob's phone")),
    "caller.placeWithData": .place(
      PlaceRequest(call: call, deviceName: "Ann's phone", pushData: "{\"room\":7}")),
    "ack": .ack([Acknowledgement(call: call, version: 1 << 21)]),
    "alerting": .call(call, .alerting),
    "answer": .call(call, .answer(description: "v=1\r\n")),
    "decline": .call(call, .decline(.everywhere)),
    "declineHere": .call(call, .decline(.here)),
    "busy": .call(call, .busy),
    "caller.cancel": .call(call, .cancel),
    "connected": .call(call, .connected),
    "hangUp": .call(call, .hangUp),
    "description": .call(call, .signal(.description, body: "v=2\r\n")),
    "candidate": .call(call, .signal(.candidate, body: "candidate:1")),
    "information": .call(call, .signal(.information, body: "{\"typing\":true}")),
    "caller.resume": .call(call, .resume),
    "query": .call(call, .query),
    "calls": .calls(shard: 63),
    "talking": .talking(Talking(number: 7, calls: [call, otherCall])),
    "attachTalking": .attach(Attach(announce: true, talking: Talking(number: 7, calls: [call]))),
    "pull": .call(
      call,
      .pull(PullRequest(from: "bob-phone", description: "v=3\r\n", deviceName: "Bob's tablet"))),
    "transfer": .call(call, .transfer(TransferRequest(to: "cy"))),
    "transferConsulted": .call(
      call,
      .transfer(
        TransferRequest(
          to: "cy", device: "cy-phone",
          consulted: ConsultedCall(call: CallID(high: 1, low: 2), callee: "cy")))),
    "cancelTransfer": .call(call, .cancelTransfer),
    "replaced": .replaced(ReplacedCall(call: CallID(high: 1, low: 2), survivor: call, user: "bob")),
    "talkingWithDetails": .talking(
      Talking(number: 7, calls: [call], details: [Talking.Detail(callee: "bob", since: later)])),
    "attachOngoing": .attach(
      Attach(announce: true, ongoing: OngoingMark(version: 1 << 21, showsCalls: true))),
    "placeBusy": .place(PlaceRequest(call: call, busyWhileInCall: true)),
    "placeFollowed": .place(PlaceRequest(call: call, subscriptions: .history)),
    "attachHistory": .attach(
      Attach(announce: true, history: HistoryMark(shown: HistoryCursor(300)))),
    "attachNamed": .attach(Attach(announce: true, userName: "Bob Stone")),
    "attachUnnamed": .attach(Attach(userName: "")),
    "historyList": .history(.list(before: HistoryCursor(300), limit: 20)),
    "historyRead": .history(.markRead(upTo: HistoryCursor(300))),
    "placeWithWebhooks": .place(PlaceRequest(call: call, subscriptions: .webhooks)),
    "crossed": .crossed(
      CrossedCall(call: call, caller: "bob", survivor: otherCall, by: "ann-phone")),
    "rulesRead": .rules(.read),
    "rulesWrite": .rules(.write(GoldenApp.rules)),
  ]

  /// The commands of gateways and coordinators.
  private static let peerBodies: [Named<Command.Body>.Element] = {
    let outcomes: Named<PushOutcome> = [
      "accepted": .accepted, "tokenGone": .tokenGone(at: at),
      "tokenGoneAtSomeTime": .tokenGone(at: nil), "rejected": .rejected(reason: "BadTopic"),
      "expired": .expired, "failed": .failed(reason: "ServiceUnavailable"),
      "failedAndMayHaveArrived": .failed(reason: "no answer", mayHaveArrived: true),
      "acceptedIn": .acceptedIn(environment: "sandbox"),
      "tokenRefused": .tokenRefused(reason: "BadDeviceToken", isSure: true),
      "tokenDoubted": .tokenRefused(reason: "BadDeviceToken"),
    ]
    let fingerprint = "00112233445566778899aabbccddeeff"
    let others: Named<Command.Body> = [
      "pushReport.withWebhooks": .pushReport(
        PushReport(
          call: call, device: "bob-phone", purpose: .ring, fingerprint: fingerprint,
          outcome: .tokenGone(at: at), at: later, hasWebhooks: true)),
      "tokenTaken": .tokenTaken(
        TokenTaken(fingerprint: fingerprint, byUser: "ann", byDevice: "ann-phone", at: later)),
      "historyChanged": .history(.changed),
      "crossedAnswered": .crossed(
        CrossedCall(
          call: call, caller: "bob", survivor: otherCall, by: "ann-phone",
          isSurvivorAnswered: true)),
      "merge": .merge(
        MergeRequest(call: call, merged: otherCall, caller: "ann", deviceName: "Bob's phone")),
      "visit": .visit(VisitRequest(call: call, callee: "bob", caller: "ann")),
      "visitAnswered": .visit(
        VisitRequest(
          call: call, callee: "bob", caller: "ann", answeredBy: "cy-phone",
          busyWhileInCall: true)),
      "visitMember": .visit(GoldenApp.memberVisit(call)),
    ]
    return outcomes.all.map { name, outcome in
      let report = PushReport(
        call: call, device: "bob-phone", purpose: .missedNotice, fingerprint: fingerprint,
        outcome: outcome, at: later)
      return ("pushReport.\(name)", .pushReport(report))
    } + others.all
  }()

  private static let ticket = SessionTicket(
    high: 0x0123_4567_89ab_cdef, low: 0xfedc_ba98_7654_3210, expires: 1_900_000_000,
    issued: 1_800_000_000, key: 5)

  private static let credentials: Named<Credential> = [
    "ticket": .ticket(ticket),
    "token": .token("a.b.c"),
    "pushCapability": .pushCapability("AAAA"),
  ]

  private static let historyPage = HistoryPage(
    items: [.init(cursor: HistoryCursor(300), entry: historyEntry)], next: HistoryCursor(300),
    state: HistoryState(cursor: HistoryCursor(301), unread: 2), readUpTo: HistoryCursor(7))

  private static let ongoing = OngoingCalls(
    version: 1 << 21,
    calls: [
      OngoingCall(
        call: call, callee: "bob", isPlaced: false, device: "bob-phone", deviceName: "Bob's phone",
        peer: "ann", peerName: "Ann A.", since: onWire),
      OngoingCall(
        call: otherCall, callee: "cy", isPlaced: true, device: "bob-tablet", peer: "cy",
        since: onWire),
    ])

  private static let replies: Named<Reply> = [
    "error": .error(CallError(.tryAgain, retryAfterMilliseconds: 1000)),
    "done": .done,
    "attached": .attached(forCall: state),
    "attachedWithTicket": .attached(forCall: nil, ticket: ticket),
    "attachedOngoing": .attached(forCall: nil, ongoing: ongoing),
    "registered": .registered(expiresAt: onWire, removed: ["bob-old"]),
    "call": .call(state),
    "won": .answer(won: true, state),
    "calls": .calls(LiveCalls(placed: [state], received: [state])),
    "rules": .rules(GoldenApp.rules),
    "appUser": .app(.user(GoldenApp.user)),
    "appCalls": .app(.calls(AppCalls([GoldenApp.call]))),
    "appCallsPage": .app(.calls(AppCalls([GoldenApp.call], next: GoldenApp.call.place))),
    "appCall": .app(.call(GoldenApp.call)),
    "appGroup": .app(.group(GoldenApp.group)),
    "appName": .app(.name("Bob Stone")),
    "appUserNamed": .app(.user(GoldenApp.named)),
  ]

  private static let events: Named<Delivery.Event> = [
    "invite": .invite(
      Invite(
        caller: caller, deadline: onWire, video: true, description: "v=0\r\n",
        headers: [CustomHeader(name: "X-Team", value: "support")],
        signals: [Signal(index: 1, kind: .candidate, body: "candidate:1")])),
    "inviteWithData": .invite(Invite(caller: caller, deadline: onWire, pushData: "{\"room\":7}")),
    "ringing": .ringing(by: phone),
    "answered": .answered(Answered(by: phone, description: "v=1\r\n")),
    "stop": .stop(Stop(reason: .answeredElsewhere, by: phone, missed: true)),
    "inviteTransferred": .invite(
      {
        var invite = Invite(caller: caller, deadline: onWire)
        invite.transferredBy = phone
        invite.consulted = ConsultedCall(call: CallID(high: 1, low: 2), callee: "cy")
        return invite
      }()),
    "transferRings": .transfer(TransferNews(to: "cy", number: 1, by: phone)),
    "transferEnded": .transfer(TransferNews(to: "cy", number: 2, reason: .unanswered)),
    "moved": .moved(Moved(to: phone, description: "v=3\r\n", number: 2)),
    "signal": .signal(Signal(index: 2, kind: .description, body: "v=2\r\n")),
    "information": .signal(Signal(index: 3, kind: .information, body: "{\"typing\":true}")),
    "ringsUntil": .ringsUntil(onWire),
  ]

  static let items: [Named<EdgeItem>.Element] = {
    let notice = Notice(kind: .sessionReplaced, message: "Replaced.", retryAfterMilliseconds: 500)
    let others: Named<EdgeItem.Body> = [
      "history": .history(HistoryState(cursor: HistoryCursor(300), unread: 2)),
      "reply.history": .reply(request: 12, .history(historyPage)),
      "notice": .notice(notice), "close": .close(notice), "ongoing": .ongoing(ongoing),
      "userName": .name("Bob Stone"), "noUserName": .name(""),
      "visit": .visit(
        request: 7,
        VisitAnswer(
          devices: [
            VisitAnswer.Device(
              id: "cy-phone", name: "Cy's phone", session: SessionRef(edge: 5, number: 6)),
            VisitAnswer.Device(id: "cy-desk", isHeld: true),
          ], isBusy: true, diverted: .busy, to: ["dee"])),
      "visitOfGroup": .visit(request: 7, GoldenApp.groupAnswer),
    ]
    var bodies = others.all
    bodies += replies.all.map { ("reply.\($0.name)", .reply(request: 12, $0.value)) }
    bodies += events.all.map { name, event in
      let delivery = Delivery(call: call, callee: "bob", version: 1 << 21, at: onWire, event: event)
      return ("delivery.\(name)", .delivery(delivery))
    }
    return bodies.map { ($0.name, EdgeItem(session: 300, body: $0.value)) }
  }()

  /// All of them, by the names of their files.
  static let all: [GoldenValue] = kept + messages

  /// The messages that nodes keep.
  private static let kept: [GoldenValue] = {
    func registration(
      _ name: String, _ value: Registration = capableRegistration, isWritten: Bool = true,
      _ change: (inout Registration) -> Void = { _ in }
    ) -> GoldenValue {
      var value = value
      change(&value)
      return GoldenValue(
        name, value, isWritten: isWritten, ClusterCodec.encode, ClusterCodec.registration)
    }
    func rules(
      _ name: String, _ rules: UserRules = GoldenApp.rules, _ change: (inout UserRules) -> Void
    ) -> GoldenValue {
      var rules = rules
      change(&rules)
      return GoldenValue(
        name, StoredRules(user: bob, rules: rules), ClusterCodec.encode, ClusterCodec.rules)
    }
    func history(_ name: String, _ message: HistoryMessage) -> GoldenValue {
      GoldenValue(name, message, ClusterCodec.encode, ClusterCodec.historyMessage)
    }
    func events(_ name: String, _ events: [AppEvent]) -> GoldenValue {
      GoldenValue(
        name, AppEventBatch(events: events),
        { ClusterCodec.encode($0.events.compactMap(\.self)) }, ClusterCodec.appEvents)
    }
    return records.map {
      GoldenValue($0.name, $0.value, ClusterCodec.encode, ClusterCodec.journalRecord)
    } + [
      GoldenValue("checkpoint", checkpoint, ClusterCodec.encode, ClusterCodec.checkpoint),
      GoldenValue(
        "checkpointPushed", pushedCheckpoint, ClusterCodec.encode, ClusterCodec.checkpoint),
      // Capabilities were not kept at first: they are derived on reading.
      registration("registration", GoldenValues.registration, isWritten: false),
      registration("bareRegistration", bareRegistration, isWritten: false),
      registration("registrationCapable"),
      registration("registrationFollowed") { $0.hasWebhooks = true },
      registration("registrationProven") {
        $0.standings = [
          TokenStanding(
            fingerprint: "00112233445566778899aabbccddeeff", isProven: true, refusals: 2,
            refusedAt: later)
        ]
      },
      rules("rules") { _ in }, rules("rulesOfGroup") { $0.group = GoldenApp.group },
      rules("rulesNamed", UserRules()) { $0.name = "Bob Stone" },
      history("historyEntry", .entry(historyEntry)),
      history("historyMark", .read(upTo: HistoryCursor(300))),
      GoldenValue("tokenOwner", tokenOwner, ClusterCodec.encode, ClusterCodec.tokenOwner),
      // Leases did not say their format at first.
      GoldenValue("lease", lease, isWritten: false, ClusterCodec.encode, ClusterCodec.lease),
      GoldenValue("leaseRefused", refusedLease, ClusterCodec.encode, ClusterCodec.lease),
      GoldenValue("cluster", cluster, ClusterCodec.encode, ClusterCodec.clusterRecord),
      GoldenValue(
        "callRecords", CallRecordBatch(records: callRecords),
        { ClusterCodec.encode($0.records) }, ClusterCodec.callRecords),
      events("appEvents", appEvents), events("appEventsGone", goneEvents),
      events("appEventsOfRegistrations", endedRegistrations),
      GoldenValue("deadLetter", deadLetter, ClusterCodec.encode, ClusterCodec.deadLetter),
      GoldenValue(
        "webhookProgress", webhookProgress, ClusterCodec.encode, ClusterCodec.webhookProgress),
      GoldenValue("pushKeys", pushKeys, ClusterCodec.encode, ClusterCodec.pushKeys),
    ]
  }()

  /// The messages that nodes send each other.
  private static let messages: [GoldenValue] = {
    func heartbeat(_ name: String, _ value: Heartbeat) -> GoldenValue {
      GoldenValue(name, value, ClusterCodec.encode, ClusterCodec.heartbeat)
    }
    func done(_ name: String, _ value: AnnounceDone) -> GoldenValue {
      GoldenValue(name, value, ClusterCodec.encode, ClusterCodec.announceDone)
    }
    func withdrawal(_ name: String, _ rings: [PushRinging]) -> GoldenValue {
      GoldenValue(name, rings, ClusterCodec.encode(withdrawn:), ClusterCodec.pushWithdrawal)
    }
    func job(_ name: String, _ job: PushJob) -> GoldenValue {
      GoldenValue(name, job, ClusterCodec.encode, ClusterCodec.pushJob)
    }
    func batch(_ name: String, _ batch: CommandBatch) -> GoldenValue {
      GoldenValue("command.\(name)", batch, ClusterCodec.encode, ClusterCodec.commandBatch)
    }
    func command(
      edge: UInt64 = 7, request: UInt64 = 5, device: DeviceID = "bob-phone", _ body: Command.Body,
      _ credential: Credential = .none
    ) -> Command {
      var command = Command(
        session: SessionRef(edge: edge, number: 5), request: request, user: bob, device: device,
        callee: bob, body: body)
      command.credential = credential
      return command
    }
    let secret = EdgeSecret(high: 11, low: 12)
    var all = [
      heartbeat("heartbeat", GoldenValues.heartbeat), heartbeat("heartbeatReads", readingHeartbeat),
      GoldenValue(
        "announceRequest", AnnounceRequest(shard: 63, epoch: 5), ClusterCodec.encode,
        ClusterCodec.announceRequest),
      done("announceDone", AnnounceDone(shard: 63, epoch: 5, edge: 42)),
      done("announceDoneWithSecret", AnnounceDone(shard: 63, epoch: 5, edge: 42, secret: secret)),
      withdrawal(
        "pushWithdrawal",
        [PushRinging(call: call), PushRinging(call: CallID(high: 1, low: 2))]),
      withdrawal(
        "pushWithdrawalOfTransfer", [PushRinging(call: call), PushRinging(call: call, round: 2)]),
      GoldenValue(
        "pushNeverSent",
        ["bob-phone", "tablet"].map { PushLeg(call: call, user: "", device: $0) },
        ClusterCodec.encode(neverSent:), ClusterCodec.pushNeverSent),
      GoldenValue(
        "pushNeverSentOfUser", [PushLeg(call: call, user: "bob", device: "bob-phone", round: 1)],
        ClusterCodec.encode(neverSent:), ClusterCodec.pushNeverSent),
    ]
    all += jobs.map { job("pushJob.\($0.name)", $0.value) }
    all += otherJobs.all.map { job($0.name, $0.value) }
    all += commands.map { batch($0.name, CommandBatch(edge: 7, commands: [$0.value])) }
    all += peerBodies.map {
      batch($0.name, CommandBatch(peer: 9, commands: [command(edge: 9, $0.value)]))
    }
    all += GoldenApp.requests.all.map {
      let asked = command(request: 1, device: "", .app($0.value), .token("a.b.c"))
      return batch("app.\($0.name)", CommandBatch(edge: 7, commands: [asked]))
    }
    all += credentials.all.map {
      let shown = command(.call(call, .query), $0.value)
      return batch($0.name, CommandBatch(edge: 7, secret: secret, commands: [shown]))
    }
    all += items.map {
      GoldenValue(
        "item.\($0.name)", EdgeBatch(items: [$0.value]), ClusterCodec.encode,
        ClusterCodec.edgeBatch)
    }
    return all
  }()
}
