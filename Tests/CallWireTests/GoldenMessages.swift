import CallCore
import CallWire

/// Messages between nodes, one of each kind.
extension GoldenValues {
  private static let onWire = Timestamp(microseconds: 1_790_000_000_123_000)

  static let commands: [(name: String, command: Command)] = bodies.map { name, body in
    (
      name,
      Command(
        session: SessionRef(edge: 7, number: 300), request: 12, user: bob, device: "bob-phone",
        callee: name.hasPrefix("caller.") ? UserKey(app: "demo", user: "ann") : bob, body: body)
    )
  }

  private static let bodies: [(name: String, body: Command.Body)] = [
    (
      "attach",
      .attach(
        Attach(
          forCall: call, deviceName: "Bob's phone", client: "CallmeshSwift 1.0", announce: true,
          attachedAt: at))
    ),
    ("sessionClosed", .sessionClosed(graceful: true)),
    ("caller.gone", .callerGone([call])),
    ("register", .register(registration.request)),
    ("unregister", .unregister("bob-tablet")),
    (
      "caller.place",
      .place(
        PlaceRequest(
          call: call, ringTimeoutSeconds: 45, description: "v=0\r\n",
          headers: [CustomHeader(name: "X-Team", value: "support")], video: true,
          deviceName: "Bob's phone"))
    ),
    (
      "caller.placeWithData",
      .place(PlaceRequest(call: call, deviceName: "Ann's phone", pushData: "{\"room\":7}"))
    ),
    ("ack", .ack([Acknowledgement(call: call, version: 1 << 21)])),
    ("alerting", .call(call, .alerting)),
    ("answer", .call(call, .answer(description: "v=1\r\n"))),
    ("decline", .call(call, .decline(.everywhere))),
    ("declineHere", .call(call, .decline(.here))),
    ("busy", .call(call, .busy)),
    ("caller.cancel", .call(call, .cancel)),
    ("connected", .call(call, .connected)),
    ("hangUp", .call(call, .hangUp)),
    ("description", .call(call, .signal(.description, body: "v=2\r\n"))),
    ("candidate", .call(call, .signal(.candidate, body: "candidate:1"))),
    ("information", .call(call, .signal(.information, body: "{\"typing\":true}"))),
    ("caller.resume", .call(call, .resume)),
    ("query", .call(call, .query)),
    ("calls", .calls(shard: 63)),
    ("talking", .talking(Talking(number: 7, calls: [call, otherCall]))),
    (
      "attachTalking",
      .attach(Attach(announce: true, talking: Talking(number: 7, calls: [call])))
    ),
    (
      "pull",
      .call(
        call,
        .pull(
          PullRequest(from: "bob-phone", description: "v=3\r\n", deviceName: "Bob's tablet")))
    ),
    ("transfer", .call(call, .transfer(TransferRequest(to: "cy")))),
    (
      "transferConsulted",
      .call(
        call,
        .transfer(
          TransferRequest(
            to: "cy", device: "cy-phone",
            consulted: ConsultedCall(call: CallID(high: 1, low: 2), callee: "cy"))))
    ),
    ("cancelTransfer", .call(call, .cancelTransfer)),
    (
      "replaced",
      .replaced(ReplacedCall(call: CallID(high: 1, low: 2), survivor: call, user: "bob"))
    ),
    (
      "talkingWithDetails",
      .talking(
        Talking(number: 7, calls: [call], details: [Talking.Detail(callee: "bob", since: later)]))
    ),
    (
      "attachOngoing",
      .attach(Attach(announce: true, ongoing: OngoingMark(version: 1 << 21, showsCalls: true)))
    ),
    ("placeBusy", .place(PlaceRequest(call: call, busyWhileInCall: true))),
    ("placeFollowed", .place(PlaceRequest(call: call, subscriptions: .history))),
    (
      "attachHistory",
      .attach(Attach(announce: true, history: HistoryMark(shown: HistoryCursor(300))))
    ),
    ("attachNamed", .attach(Attach(announce: true, userName: "Bob Stone"))),
    ("attachUnnamed", .attach(Attach(userName: ""))),
    ("historyList", .history(.list(before: HistoryCursor(300), limit: 20))),
    ("historyRead", .history(.markRead(upTo: HistoryCursor(300)))),
    ("placeWithWebhooks", .place(PlaceRequest(call: call, subscriptions: .webhooks))),
    (
      "crossed",
      .crossed(CrossedCall(call: call, caller: "bob", survivor: otherCall, by: "ann-phone"))
    ),
    ("rulesRead", .rules(.read)), ("rulesWrite", .rules(.write(GoldenApp.rules))),
  ]

  /// The commands of gateways and coordinators.
  private static let peerBodies: [(name: String, body: Command.Body)] = {
    let outcomes: [(String, PushOutcome)] = [
      ("accepted", .accepted), ("tokenGone", .tokenGone(at: at)),
      ("tokenGoneAtSomeTime", .tokenGone(at: nil)), ("rejected", .rejected(reason: "BadTopic")),
      ("expired", .expired), ("failed", .failed(reason: "ServiceUnavailable")),
      ("failedAndMayHaveArrived", .failed(reason: "no answer", mayHaveArrived: true)),
      ("acceptedIn", .acceptedIn(environment: "sandbox")),
      ("tokenRefused", .tokenRefused(reason: "BadDeviceToken", isSure: true)),
      ("tokenDoubted", .tokenRefused(reason: "BadDeviceToken")),
    ]
    let taken = TokenTaken(
      fingerprint: "00112233445566778899aabbccddeeff", byUser: "ann", byDevice: "ann-phone",
      at: later)
    return outcomes.map { name, outcome in
      (
        "pushReport.\(name)",
        .pushReport(
          PushReport(
            call: call, device: "bob-phone", purpose: .missedNotice,
            fingerprint: "00112233445566778899aabbccddeeff", outcome: outcome, at: later))
      )
    } + [
      (
        "pushReport.withWebhooks",
        .pushReport(
          PushReport(
            call: call, device: "bob-phone", purpose: .ring,
            fingerprint: "00112233445566778899aabbccddeeff", outcome: .tokenGone(at: at), at: later,
            hasWebhooks: true))
      ),
      ("tokenTaken", .tokenTaken(taken)), ("historyChanged", .history(.changed)),
      (
        "crossedAnswered",
        .crossed(
          CrossedCall(
            call: call, caller: "bob", survivor: otherCall, by: "ann-phone",
            isSurvivorAnswered: true))
      ),
      (
        "merge",
        .merge(
          MergeRequest(call: call, merged: otherCall, caller: "ann", deviceName: "Bob's phone"))
      ),
      ("visit", .visit(VisitRequest(call: call, callee: "bob", caller: "ann"))),
      (
        "visitAnswered",
        .visit(
          VisitRequest(
            call: call, callee: "bob", caller: "ann", answeredBy: "cy-phone",
            busyWhileInCall: true))
      ),
      ("visitMember", .visit(GoldenApp.memberVisit(call))),
    ]
  }()

  private static let ticket = SessionTicket(
    high: 0x0123_4567_89ab_cdef, low: 0xfedc_ba98_7654_3210, expires: 1_900_000_000,
    issued: 1_800_000_000, key: 5)

  private static let credentials: [(name: String, credential: Credential)] = [
    ("ticket", .ticket(ticket)), ("token", .token("a.b.c")),
    ("pushCapability", .pushCapability("AAAA")),
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

  private static let replies: [(name: String, reply: Reply)] = [
    ("error", .error(CallError(.tryAgain, retryAfterMilliseconds: 1000))),
    ("done", .done),
    ("attached", .attached(forCall: state)),
    ("attachedWithTicket", .attached(forCall: nil, ticket: ticket)),
    ("attachedOngoing", .attached(forCall: nil, ongoing: ongoing)),
    ("registered", .registered(expiresAt: onWire, removed: ["bob-old"])),
    ("call", .call(state)),
    ("won", .answer(won: true, state)),
    ("calls", .calls(LiveCalls(placed: [state], received: [state]))),
    ("rules", .rules(GoldenApp.rules)), ("appUser", .app(.user(GoldenApp.user))),
    ("appCalls", .app(.calls(AppCalls([GoldenApp.call])))),
    ("appCallsPage", .app(.calls(AppCalls([GoldenApp.call], next: GoldenApp.call.place)))),
    ("appCall", .app(.call(GoldenApp.call))),
    ("appGroup", .app(.group(GoldenApp.group))),
    ("appName", .app(.name("Bob Stone"))), ("appUserNamed", .app(.user(GoldenApp.named))),
  ]

  private static let events: [(name: String, event: Delivery.Event)] = [
    (
      "invite",
      .invite(
        Invite(
          caller: caller, deadline: onWire, video: true, description: "v=0\r\n",
          headers: [CustomHeader(name: "X-Team", value: "support")],
          signals: [Signal(index: 1, kind: .candidate, body: "candidate:1")]))
    ),
    (
      "inviteWithData",
      .invite(Invite(caller: caller, deadline: onWire, pushData: "{\"room\":7}"))
    ),
    ("ringing", .ringing(by: phone)),
    ("answered", .answered(Answered(by: phone, description: "v=1\r\n"))),
    ("stop", .stop(Stop(reason: .answeredElsewhere, by: phone, missed: true))),
    (
      "inviteTransferred",
      .invite(
        {
          var invite = Invite(caller: caller, deadline: onWire)
          invite.transferredBy = phone
          invite.consulted = ConsultedCall(call: CallID(high: 1, low: 2), callee: "cy")
          return invite
        }())
    ),
    ("transferRings", .transfer(TransferNews(to: "cy", number: 1, by: phone))),
    ("transferEnded", .transfer(TransferNews(to: "cy", number: 2, reason: .unanswered))),
    ("moved", .moved(Moved(to: phone, description: "v=3\r\n", number: 2))),
    ("signal", .signal(Signal(index: 2, kind: .description, body: "v=2\r\n"))),
    ("information", .signal(Signal(index: 3, kind: .information, body: "{\"typing\":true}"))),
    ("ringsUntil", .ringsUntil(onWire)),
  ]

  static let items: [(name: String, item: EdgeItem)] = {
    let notice = Notice(kind: .sessionReplaced, message: "Replaced.", retryAfterMilliseconds: 500)
    var bodies: [(String, EdgeItem.Body)] = replies.map {
      ("reply.\($0.name)", .reply(request: 12, $0.reply))
    }
    bodies += events.map { name, event in
      let delivery = Delivery(
        call: call, callee: "bob", version: 1 << 21, at: onWire, event: event)
      return ("delivery.\(name)", .delivery(delivery))
    }
    bodies += [
      ("history", .history(HistoryState(cursor: HistoryCursor(300), unread: 2))),
      ("reply.history", .reply(request: 12, .history(historyPage))),
      ("notice", .notice(notice)), ("close", .close(notice)), ("ongoing", .ongoing(ongoing)),
      ("userName", .name("Bob Stone")), ("noUserName", .name("")),
      (
        "visit",
        .visit(
          request: 7,
          VisitAnswer(
            devices: [
              VisitAnswer.Device(
                id: "cy-phone", name: "Cy's phone", session: SessionRef(edge: 5, number: 6)),
              VisitAnswer.Device(id: "cy-desk", isHeld: true),
            ], isBusy: true, diverted: .busy, to: ["dee"]))
      ),
      ("visitOfGroup", .visit(request: 7, GoldenApp.groupAnswer)),
    ]
    return bodies.map { ($0.0, EdgeItem(session: 300, body: $0.1)) }
  }()

  /// All of them, by the names of their files.
  static let all: [GoldenValue] = {
    var all = records.map {
      GoldenValue($0.name, $0.record, ClusterCodec.encode, ClusterCodec.journalRecord)
    }
    all += [
      GoldenValue("recordFollows", following, ClusterCodec.encode, ClusterCodec.journalRecord),
      GoldenValue("checkpoint", checkpoint, ClusterCodec.encode, ClusterCodec.checkpoint),
      // Capabilities were not kept at first: they are derived on reading.
      GoldenValue(
        "registration", registration, isWritten: false, ClusterCodec.encode,
        ClusterCodec.registration),
      GoldenValue(
        "bareRegistration", bareRegistration, isWritten: false, ClusterCodec.encode,
        ClusterCodec.registration),
      GoldenValue(
        "registrationCapable", capableRegistration, ClusterCodec.encode,
        ClusterCodec.registration),
      GoldenValue(
        "historyEntry", HistoryMessage.entry(historyEntry), ClusterCodec.encode,
        ClusterCodec.historyMessage),
      GoldenValue(
        "historyMark", HistoryMessage.read(upTo: HistoryCursor(300)), ClusterCodec.encode,
        ClusterCodec.historyMessage),
      GoldenValue("tokenOwner", tokenOwner, ClusterCodec.encode, ClusterCodec.tokenOwner),
      GoldenValue(
        "checkpointPushed", pushedCheckpoint, ClusterCodec.encode, ClusterCodec.checkpoint),
      GoldenValue(
        "heartbeatReads", readingHeartbeat, ClusterCodec.encode, ClusterCodec.heartbeat),
      // Leases did not say their format at first.
      GoldenValue("lease", lease, isWritten: false, ClusterCodec.encode, ClusterCodec.lease),
      GoldenValue("leaseRefused", refusedLease, ClusterCodec.encode, ClusterCodec.lease),
      GoldenValue("cluster", cluster, ClusterCodec.encode, ClusterCodec.clusterRecord),
      GoldenValue("heartbeat", heartbeat, ClusterCodec.encode, ClusterCodec.heartbeat),
      GoldenValue(
        "announceRequest", AnnounceRequest(shard: 63, epoch: 5), ClusterCodec.encode,
        ClusterCodec.announceRequest),
      GoldenValue(
        "announceDone", AnnounceDone(shard: 63, epoch: 5, edge: 42), ClusterCodec.encode,
        ClusterCodec.announceDone),
      GoldenValue(
        "pushWithdrawal",
        [PushRinging(call: call), PushRinging(call: CallID(high: 1, low: 2))],
        ClusterCodec.encode(withdrawn:), ClusterCodec.pushWithdrawal),
      GoldenValue(
        "pushWithdrawalOfTransfer", [PushRinging(call: call), PushRinging(call: call, round: 2)],
        ClusterCodec.encode(withdrawn:), ClusterCodec.pushWithdrawal),
      GoldenValue(
        "callRecords", CallRecordBatch(records: callRecords),
        { ClusterCodec.encode($0.records) }, ClusterCodec.callRecords),
      GoldenValue(
        "appEvents", AppEventBatch(events: appEvents),
        { ClusterCodec.encode($0.events.compactMap(\.self)) }, ClusterCodec.appEvents),
      GoldenValue(
        "appEventsGone", AppEventBatch(events: goneEvents),
        { ClusterCodec.encode($0.events.compactMap(\.self)) }, ClusterCodec.appEvents),
      GoldenValue(
        "appEventsOfRegistrations", AppEventBatch(events: endedRegistrations),
        { ClusterCodec.encode($0.events.compactMap(\.self)) }, ClusterCodec.appEvents),
      GoldenValue(
        "registrationProven", provenRegistration, ClusterCodec.encode, ClusterCodec.registration),
      GoldenValue(
        "registrationFollowed", followedRegistration, ClusterCodec.encode,
        ClusterCodec.registration),
      GoldenValue("deadLetter", deadLetter, ClusterCodec.encode, ClusterCodec.deadLetter),
      GoldenValue(
        "webhookProgress", webhookProgress, ClusterCodec.encode, ClusterCodec.webhookProgress),
    ]
    all += jobs.map {
      GoldenValue("pushJob.\($0.name)", $0.job, ClusterCodec.encode, ClusterCodec.pushJob)
    }
    all += [
      GoldenValue("pushKeys", pushKeys, ClusterCodec.encode, ClusterCodec.pushKeys),
      GoldenValue(
        "pushJobRingUnknown", jobOfAnUnknownRing, ClusterCodec.encode, ClusterCodec.pushJob),
      GoldenValue("pushJobWithData", jobWithData, ClusterCodec.encode, ClusterCodec.pushJob),
      GoldenValue("pushJobWithUnread", jobWithUnread, ClusterCodec.encode, ClusterCodec.pushJob),
      GoldenValue(
        "pushJobOfADoubtedToken", jobOfADoubtedToken, ClusterCodec.encode, ClusterCodec.pushJob),
      GoldenValue(
        "pushJobWithWebhooks", jobWithWebhooks, ClusterCodec.encode, ClusterCodec.pushJob),
      GoldenValue(
        "pushNeverSent",
        [PushLeg(call: call, device: "bob-phone"), PushLeg(call: call, device: "tablet")],
        ClusterCodec.encode(neverSent:), ClusterCodec.pushNeverSent),
    ]
    all += commands.map {
      GoldenValue(
        "command.\($0.name)", CommandBatch(edge: 7, commands: [$0.command]), ClusterCodec.encode,
        ClusterCodec.commandBatch)
    }
    all += peerBodies.map { name, body in
      let command = Command(
        session: SessionRef(edge: 9, number: 5), request: 5, user: bob, device: "bob-phone",
        callee: bob, body: body)
      return GoldenValue(
        "command.\(name)", CommandBatch(peer: 9, commands: [command]), ClusterCodec.encode,
        ClusterCodec.commandBatch)
    }
    all += GoldenApp.requests.map { name, request in
      var command = Command(
        session: SessionRef(edge: 7, number: 5), request: 1, user: bob, device: "", callee: bob,
        body: .app(request))
      command.credential = .token("a.b.c")
      return GoldenValue(
        "command.app.\(name)", CommandBatch(edge: 7, commands: [command]), ClusterCodec.encode,
        ClusterCodec.commandBatch)
    }
    all.append(
      GoldenValue(
        "rules", StoredRules(user: bob, rules: GoldenApp.rules), ClusterCodec.encode,
        ClusterCodec.rules))
    var grouped = GoldenApp.rules
    grouped.group = GoldenApp.group
    all.append(
      GoldenValue(
        "rulesOfGroup", StoredRules(user: bob, rules: grouped), ClusterCodec.encode,
        ClusterCodec.rules))
    var named = UserRules()
    named.name = "Bob Stone"
    all.append(
      GoldenValue(
        "rulesNamed", StoredRules(user: bob, rules: named), ClusterCodec.encode,
        ClusterCodec.rules))
    all += credentials.map { name, credential in
      var command = Command(
        session: SessionRef(edge: 7, number: 5), request: 5, user: bob, device: "bob-phone",
        callee: bob, body: .call(call, .query))
      command.credential = credential
      return GoldenValue(
        "command.\(name)",
        CommandBatch(edge: 7, secret: EdgeSecret(high: 11, low: 12), commands: [command]),
        ClusterCodec.encode, ClusterCodec.commandBatch)
    }
    all.append(
      GoldenValue(
        "announceDoneWithSecret",
        AnnounceDone(shard: 63, epoch: 5, edge: 42, secret: EdgeSecret(high: 11, low: 12)),
        ClusterCodec.encode, ClusterCodec.announceDone))
    all += items.map {
      GoldenValue(
        "item.\($0.name)", EdgeBatch(items: [$0.item]), ClusterCodec.encode,
        ClusterCodec.edgeBatch)
    }
    return all
  }()
}
