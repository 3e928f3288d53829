import CallCore
import CallWire

/// A value of which Tests/Fixtures keeps the bytes.
struct GoldenValue: Sendable {
  var name: String
  /// As this version writes it.
  var encoded: [UInt8]
  /// Whether this version writes it as it is kept; else it only reads it.
  var isWritten: Bool
  /// Whether bytes are read as the value.
  var decodesTo: @Sendable ([UInt8]) throws -> Bool

  init<Value: Equatable & Sendable>(
    _ name: String, _ value: Value, isWritten: Bool = true, _ encode: (Value) -> [UInt8],
    _ decode: @escaping @Sendable ([UInt8]) throws -> Value
  ) {
    self.name = name
    self.isWritten = isWritten
    encoded = encode(value)
    decodesTo = { try decode($0) == value }
  }
}

/// Values by their names.
struct Named<Value: Sendable>: Sendable, ExpressibleByDictionaryLiteral {
  typealias Element = (name: String, value: Value)
  var all: [Element]
  init(dictionaryLiteral elements: (String, Value)...) { all = elements.map { ($0.0, $0.1) } }
}

/// One value of every kind that is kept or crosses versions.
enum GoldenValues {
  static let call = CallID(high: 0x6ba7_b810_9dad_11d1, low: 0x80b4_00c0_4fd4_30c8)
  static let otherCall = CallID(high: 0x6ba7_b811_9dad_11d1, low: 0x80b4_00c0_4fd4_30c8)
  static let bob = UserKey(app: "demo", user: "bob")
  static let caller = Party(user: "ann", device: "ann-phone", deviceName: "Ann's phone")
  static let phone = Party(user: "bob", device: "bob-phone", deviceName: "Bob's phone")
  static let tablet = Party(user: "bob", device: "bob-tablet")
  static let at = Timestamp(microseconds: 1_790_000_000_123_456)
  static let later = Timestamp(microseconds: 1_790_000_030_123_456)

  static let changes: Named<JournalEntry.Change> = [
    "placed": .placed(
      PlacedFacts(
        callee: bob, caller: caller, placedAt: at, deadline: later, video: true,
        description: "v=0\r\n", headers: [CustomHeader(name: "X-Team", value: "support")],
        legs: [phone, tablet], fingerprint: 0xfedc_ba98_7654_3210)),
    "legJoined": .legJoined(tablet),
    "alerting": .alerting("bob-phone"),
    "answered": .answered(
      AnsweredFacts(by: phone, at: at, description: "v=1\r\n", connectDeadline: later)),
    "declinedHere": .legEnded("bob-tablet", .declinedHere, at: nil),
    "busyHere": .legEnded("bob-tablet", .busy, at: nil),
    "gone": .legEnded("bob-tablet", .gone, at: nil),
    "callerConnected": .connected(caller: true),
    "winnerConnected": .connected(caller: false),
    "signalOfCaller": .signal(
      fromCaller: true, "ann-phone", Signal(index: 1, kind: .candidate, body: "candidate:1")),
    "signalOfLeg": .signal(
      fromCaller: false, "bob-phone", Signal(index: 300, kind: .description, body: "v=2\r\n")),
    "callerLost": .callerLost(until: later),
    "callerBack": .callerLost(until: nil),
    "winnerLost": .winnerLost(until: later),
    "winnerBack": .winnerLost(until: nil),
    "settled": .settled,
  ]

  static let historyEntry = HistoryEntry(
    call: call, callee: "bob", isPlaced: false, peer: "ann", peerName: "Ann A.",
    device: "bob-phone", deviceName: "Bob's phone",
    placedAt: Timestamp(microseconds: 1_790_000_000_123_000),
    answeredAt: Timestamp(microseconds: 1_790_000_003_123_000),
    endedAt: Timestamp(microseconds: 1_790_000_030_123_000), reason: .hungUp, isMissed: true,
    video: true)

  static let callRecords: [CallRecord] = {
    var record = CallRecord(
      call: call, callee: bob, caller: caller, video: true, placedAt: at, eventsDropped: 3)
    record.answer = .init(by: phone, at: later, merged: otherCall)
    record.end = EndedFacts(reason: .hungUp, by: caller, at: later, missed: false)
    var leg = CallRecord.Leg(party: phone, fate: .won, endedAt: later)
    (leg.pushedAt, leg.invitedAt, leg.deliveredAt, leg.alertedAt) = (at, later, later, later)
    record.legs = [leg, .init(party: tablet, fate: .stopped, endedAt: later)]
    record.events = [
      .init(.placed, offset: 0, who: .caller),
      .init(.pushRejected, offset: 70_000, who: .leg(0), purpose: .ring, reason: "BadTopic"),
      .init(.takenOver, offset: 5_000_000, who: .call),
      .init(.pushed, offset: .max, who: .device("tv"), purpose: .missedNotice),
    ]
    var unreachable = CallRecord(call: otherCall, callee: bob, caller: caller, placedAt: at)
    unreachable.end = EndedFacts(
      reason: .unreachable, by: nil, at: at, missed: true, unreachable: .noDevice)
    return [record, unreachable]
  }()

  static let appEvents: [AppEvent] = {
    let placed = AppEvent(
      call: call, kind: .placed, at: at, callee: bob, caller: caller, video: true, placedAt: at)
    var ended = AppEvent(
      call: call, kind: .ended, at: later, callee: bob, caller: caller, video: false, placedAt: at,
      by: phone)
    (ended.answeredAt, ended.reason, ended.missed) = (later, .hungUp, true)
    ended.survivor = otherCall
    return [placed, ended]
  }()

  static let goneEvents = [
    AppEvent(
      GoneRegistration(
        device: "bob-phone", deviceName: "Bob's phone", provider: .apns, isVoIP: true,
        fingerprint: "00112233445566778899aabbccddeeff", registeredAt: at), of: bob, at: later)
  ]

  static let endedRegistrations = GoneCause.allCases.map { cause in
    AppEvent(
      GoneRegistration(device: "bob-phone", cause: cause, registeredAt: at), of: bob, at: later)
  }

  static let deadLetter = DeadLetter(
    event: appEvents[1], endpoint: "0123456789abcdef", host: "app.example", attempts: 30,
    reason: "status 500", at: later)

  static let webhookProgress: WebhookProgress = {
    var progress = WebhookProgress(app: "demo", host: "app.example", since: at)
    (progress.owner, progress.next, progress.oldest) = ("push-1-abc", 70, at)
    progress.open = [.init(sequence: 3, index: 0), .init(sequence: 3, index: 2)]
    (progress.delivered, progress.failures, progress.deadLetters) = (1000, 20, 3)
    (progress.lastFailure, progress.writtenAt) = ("status 500", later)
    return progress
  }()

  static let ends: [Named<JournalEntry.Change>.Element] = EndReason.allCases.filter {
    // No call ends as moved.
    $0 != .moved
  }.map {
    (
      "ended.\($0.name)",
      .ended(
        EndedFacts(
          reason: $0, by: $0 == .unanswered ? nil : caller, at: later, missed: $0.isMissedCall))
    )
  }

  /// Came with the second format.
  static let pushes: [Named<JournalEntry.Change>.Element] = PushPurpose.allCases.map {
    ("pushed.\($0.name)", .pushed("bob-phone", $0))
  }

  /// Came with the third format.
  static let moves: Named<JournalEntry.Change> = [
    "moved": .moved(
      MovedFacts(
        ofCaller: false, from: phone, to: tablet, at: at, description: "v=3\r\n",
        connectDeadline: later)),
    "callerMoved": .moved(
      MovedFacts(
        ofCaller: true, from: caller, to: caller, at: at, description: "",
        connectDeadline: later)),
  ]

  private static let inTurn: DivertedFacts = {
    var diverted = DivertedFacts(from: "desk", to: ["cy"], reason: .group, at: at, deadline: later)
    (diverted.queue, diverted.ringSlot) = (["cy", "dee"], .seconds(15))
    return diverted
  }()

  /// Came with the fourth format.
  static let diversions: Named<JournalEntry.Change> = [
    "diverted": .diverted(
      DivertedFacts(from: "bob", to: ["cy", "dee"], reason: .noAnswer, at: at, deadline: later)),
    "declinedByOne": .diverted(
      DivertedFacts(from: "cy", to: [], reason: .declined, by: tablet, at: at, deadline: later)),
    "divertedInTurn": .diverted(inTurn),
  ]

  /// Came with the fifth format.
  static let transfers: Named<JournalEntry.Change> = [
    "transferred": .diverted(
      {
        var start = DivertedFacts(
          from: "bob", to: ["cy"], reason: .transferred, by: phone, at: at, deadline: later)
        start.device = "cy-phone"
        start.consulted = ConsultedCall(call: CallID(high: 1, low: 2), callee: "cy")
        return start
      }()),
    "transferEnded": .transferEnded(TransferEnd(reason: .declined, by: tablet, at: later)),
    "placedByApp": placed {
      $0.caller = Party(user: "cy", device: "", name: "Dr. Cy")
      $0.callerRings = .seconds(25)
    },
    "placedAtDevice": placed {
      $0.caller = Party(user: "cy", device: "")
      ($0.callerRings, $0.onlyDevice) = (.seconds(25), phone.device)
    },
  ]

  /// Say when, which the first versions did not.
  static let timedLegEnds: [Named<JournalEntry.Change>.Element] =
    [("declinedHere", LegEnd.declinedHere), ("busyHere", .busy), ("gone", .gone)].map {
      ("\($0.0).at", .legEnded("bob-tablet", $0.1, at: later))
    }

  /// Came with the second format, too: a reader of before stops its shard.
  static let informations: Named<JournalEntry.Change> = [
    "information": .signal(
      fromCaller: true, "ann-phone",
      Signal(index: 2, kind: .information, body: "{\"typing\":true}", request: 17))
  ]

  private static func placed(_ change: (inout PlacedFacts) -> Void) -> JournalEntry.Change {
    var facts = PlacedFacts(
      callee: bob, caller: caller, placedAt: at, deadline: later, video: false, description: "",
      headers: [], legs: [phone], fingerprint: 5)
    change(&facts)
    return .placed(facts)
  }

  /// Need no format of their own: earlier versions lose what is new in them, and no more. To those without records
  /// `recorded` is a second end, which they ignore.
  static let additions: Named<JournalEntry.Change> = [
    "placedWithData": placed { $0.pushData = "{\"room\":7}" },
    "placedFollowed": placed { $0.subscriptions = .history },
    "placedForAChosenTime": placed { $0.isRingFixed = true },
    "recorded": .recorded, "endedByApp": GoldenApp.ended,
  ]

  static let records: [Named<JournalRecord>.Element] = {
    var entries = changes.all + ends + pushes + timedLegEnds + informations.all + moves.all
    entries += diversions.all + transfers.all + additions.all
    let ofOwners: Named<JournalRecord> = [
      "fence": JournalRecord(epoch: 4, number: 1, writer: "coordinator-b", at: at, entries: []),
      "release": JournalRecord(
        epoch: 4, number: 2, writer: "coordinator-b", at: at, entries: [], released: true),
      "group": JournalRecord(
        epoch: 4, number: 300, writer: "coordinator-b", at: at,
        entries: changes.all.map { JournalEntry(call: call, change: $0.value) }),
      "recordFollows": JournalRecord(
        epoch: 4, number: 301, writer: "coordinator-b", at: at, entries: [], previous: 4711),
    ]
    return entries.map { name, change in
      let entry = JournalEntry(call: call, change: change)
      return (
        "entry.\(name)",
        JournalRecord(epoch: 3, number: 7, writer: "coordinator-a", at: at, entries: [entry])
      )
    } + ofOwners.all
  }()

  static let checkpoint = Checkpoint(
    sequence: 123_456, epoch: 4,
    entries: (changes.all + ends).filter { $0.name != "ended.transferred" }.map {
      JournalEntry(call: call, change: $0.value)
    })

  static let pushedCheckpoint = Checkpoint(
    sequence: 123_457, epoch: 4,
    entries: (changes.all + pushes).map { JournalEntry(call: call, change: $0.value) })

  static let capableRegistration = Registration(
    user: bob, device: "bob-phone",
    request: RegistrationRequest(
      deviceName: "Bob's phone",
      voipToken: PushToken(
        provider: .apns, environment: "sandbox", topic: "org.example.app.voip", token: "c0ffee",
        fingerprint: "00112233445566778899aabbccddeeff"),
      dialect: "telnyx", sdkName: "iOS-3.2.1"),
    registeredAt: at, seenAt: later, capabilities: [.missed, .cancel])

  static let tokenOwner = TokenOwner(user: bob, device: "bob-phone", claimedAt: at)

  static let registration = Registration(
    user: bob, device: "bob-phone",
    request: RegistrationRequest(
      deviceName: "Bob's phone",
      voipToken: PushToken(
        provider: .apns, environment: "production", topic: "org.example.app.voip",
        token: "c0ffee"),
      alertToken: PushToken(
        provider: .fcm, environment: "", topic: "example-project", token: "fcm:token"),
      dialect: "callmesh", sdkName: "CallmeshSwift", sdkVersion: "1.0"),
    registeredAt: at, seenAt: later)

  static let bareRegistration = Registration(
    user: bob, device: "bob-tablet", request: RegistrationRequest(), registeredAt: at, seenAt: at)

  static let lease = Lease(owner: "coordinator-a", incarnation: .max, epoch: 4, released: true)

  static let refusedLease = Lease(
    owner: "coordinator-b", incarnation: 77, epoch: 5, released: true, refusedBy: [77, .max],
    refusal: "journal record 12: The message could not be read.")

  static let cluster = ClusterRecord(cluster: "callmesh", shardCount: 64)

  static let heartbeat = Heartbeat(
    node: "edge-1", role: .edge, incarnation: 42, state: .leaving, version: "0.1.0",
    shardCount: 64, reads: 1)

  static let readingHeartbeat = Heartbeat(
    node: "push-1", role: .push, incarnation: 43, state: .serving, version: "0.2.0",
    shardCount: 64, reads: 2)

  static let state: CallState = {
    var state = CallState(call: call, callee: "bob", phase: .ended)
    state.reason = .declined
    state.by = phone
    state.deadline = Timestamp(microseconds: 1_790_000_030_000_000)
    return state
  }()
}
