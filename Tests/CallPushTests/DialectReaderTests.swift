import CallClient
import CallCore
import CallPush
import CallWire
import Testing

/// The device reads what we send.
@Suite struct DialectRoundTripTests {
  static let call = CallID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")!
  static let caller = Party(user: "ann ü", device: "ann-phone", deviceName: "Ann's \"phone\"")
  static let by = Party(user: "bob", device: "bob-tablet", deviceName: "Bob's tablet")
  static let headers = [
    CustomHeader(name: "X-Team", value: "a&b=c%d+e \u{1F600}"), CustomHeader(name: "ü", value: ""),
  ]

  /// All of what each dialect has, at each provider.
  static let sent: [PushJob] = PushDialect.allCases.flatMap { dialect in
    PushPurpose.allCases.flatMap { purpose in
      [PushProvider.apns, .fcm, .webPush].flatMap { provider in
        [false, true].map { video in
          pushJob(
            purpose, dialect: dialect, provider: provider, caller: caller, video: video,
            headers: headers, reason: purpose == .ring ? nil : .declined, by: by,
            pushData: "d\"ä")
        }
      }
    }
  }

  /// A browser's service worker reads our dialect, whatever its app reads elsewhere.
  func reader(_ job: PushJob) -> PushReader {
    PushReader(job.token.provider == .webPush ? .callmesh : job.dialect)
  }

  @Test func everyPushComesBack() throws {
    var count = 0
    for job in Self.sent {
      guard let bytes = encode(job).payload?.bytes else { continue }
      count += 1
      let news = try reader(job).read(bytes)
      #expect(news.call == Self.call)
      switch news {
      case .invite(let invite):
        #expect(job.purpose == .ring)
        #expect(
          invite
            == PushInvite(
              call: Self.call, callee: "bob", handle: "ann ü", caller: Self.caller,
              video: job.video, headers: Self.headers, pushData: "d\"ä",
              placedAt: Timestamp(microseconds: 1_790_000_000_000_000),
              sentAt: Timestamp(microseconds: 1_790_000_000_020_000),
              deadline: Timestamp(microseconds: 1_790_000_030_000_000), capability: "cap"))
      case .stop(let stop):
        #expect([.missed, .answeredElsewhere, .cancel, .ended].contains(job.purpose))
        #expect(
          stop
            == PushStop(
              call: Self.call, purpose: job.purpose, callee: "bob", reason: .declined, by: Self.by,
              callKitReason: 5,
              sentAt: Timestamp(microseconds: 1_790_000_000_020_000),
              mustReportCall: job.purpose != .ended))
      case .missed(let notice):
        #expect(job.purpose == .missedNotice)
        #expect(notice.handle == "ann ü" && notice.caller == Self.caller)
        #expect(notice.video == job.video && notice.reason == .declined)
        #expect(notice.placedAt == Timestamp(microseconds: 1_790_000_000_000_000))
      }
    }
    // 6 alerts and browsers each, and the table's rows: none was passed over in silence.
    #expect(count == 2 * (6 * 2 * 3 + 6 * 4 + 20))
  }

  @Test(arguments: EndReason.allCases) func callKitReasons(reason: EndReason) throws {
    let expected =
      switch reason {
      case .answeredElsewhere, .glare, .moved: 4
      case .declined: 5
      case .cancelled, .hungUp, .transferred: 2
      case .unanswered, .busy: 3
      case .unreachable, .failed: 1
      }
    for (dialect, purpose) in [
      (PushDialect.callmesh, PushPurpose.cancel), (.callmesh, .ended), (.callmesh, .missed),
      (.telnyx, .missed), (.telnyx, .answeredElsewhere), (.twilio, .cancel),
    ] {
      let bytes = try #require(encode(pushJob(purpose, dialect: dialect, reason: reason)).payload)
      guard case .stop(let stop) = try PushReader(dialect).read(bytes.bytes) else {
        Issue.record("\(dialect): no stop")
        continue
      }
      #expect(stop.callKitReason == expected, "\(dialect) \(purpose)")
    }
  }

  @Test func aDictionaryIsReadLikeBytes() throws {
    let payload: [AnyHashable: Any] = [
      "UUID": "6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "handle": "ann", "hasVideo": true,
      "callmesh": [
        "v": 1, "purpose": "ring", "call": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "callee": "bob",
        "caller": ["user": "ann"], "video": true, "sentAtMs": 1_790_000_000_020,
        "deadlineMs": Int64(1_790_000_030_000), "headers": [["name": "a", "value": "b"]] as [Any],
      ] as [String: Any],
    ]
    guard case .invite(let invite) = try PushReader(.fcsdk).read(PayloadValue(payload)) else {
      Issue.record("no invite")
      return
    }
    #expect(invite.video && invite.headers == [CustomHeader(name: "a", value: "b")])
    #expect(invite.deadline == Timestamp(microseconds: 1_790_000_030_000_000))
    struct Foreign {}
    #expect(PayloadValue(["a": Foreign()]) == nil)
    #expect(PayloadValue([1: "a"] as [AnyHashable: Any]) == nil)
    #expect(throws: PushReadError.notAPayload) { try PushReader(.apple).read(PayloadValue("a")) }
  }

  @Test func aShedPayloadIsReadToo() throws {
    let job = pushJob(
      .cancel, caller: Self.caller, headers: Self.headers, reason: .declined, by: Self.by)
    // 5120 less what cannot go.
    let capability = String(repeating: "c", count: 4870)
    let payload = try #require(encode(job, capability: capability).payload)
    #expect(payload.shed.last == .placedAt)
    guard case .stop(let stop) = try PushReader(.callmesh).read(payload.bytes) else {
      Issue.record("no stop")
      return
    }
    #expect(stop.by == Party(user: "bob", device: ""))
    #expect(stop.reason == .declined)
  }

  @Test func noDescriptionShowsTheCapability() throws {
    let bytes = try #require(encode(pushJob(), capability: "s3cret").payload).bytes
    let news = try PushReader(.callmesh).read(bytes)
    guard case .invite(let invite) = news else { return }
    #expect(invite.capability == "s3cret")
    #expect(!"\(invite)".contains("s3cret"))
    #expect(!"\(news)".contains("s3cret"))
  }
}

/// When a push is too old, by the device's clock and by the send time.
@Suite struct PushFreshnessTests {
  func at(_ milliseconds: Int64) -> Timestamp { Timestamp(microseconds: milliseconds * 1000) }

  func invite(sent: Int64? = 100_000, deadline: Int64? = 130_000) -> PushInvite {
    PushInvite(
      call: CallID(high: 1, low: 2), handle: "ann", sentAt: sent.map(at), deadline: deadline.map(at)
    )
  }

  @Test func byTheDeadline() {
    #expect(
      invite().freshness(at: at(101_000), serverOffset: .seconds(0))
        == .rings(remaining: .seconds(29)))
    #expect(
      invite().freshness(at: at(129_999), serverOffset: .seconds(0))
        == .rings(remaining: .milliseconds(1)))
    #expect(
      invite().freshness(at: at(130_000), serverOffset: .seconds(0)) == .expired(since: .seconds(0))
    )
    #expect(
      invite().freshness(at: at(1_030_000), serverOffset: .seconds(0))
        == .expired(since: .seconds(900)))
  }

  @Test func aClockThatIsBehindMakesNoPushYounger() {
    // It was sent "in the future": then it was sent just now.
    #expect(
      invite().freshness(at: at(10_000), serverOffset: .seconds(0))
        == .rings(remaining: .seconds(30)))
    #expect(invite().age(at: at(10_000)) == .seconds(0))
    #expect(invite().age(at: at(103_000)) == .seconds(3))
  }

  @Test func theClustersClockCounts() {
    // This device is ten minutes ahead, and does not know; then it does.
    #expect(invite().freshness(at: at(701_000), serverOffset: nil) == .unknown)
    #expect(
      invite().freshness(at: at(701_000), serverOffset: .seconds(0))
        == .expired(since: .seconds(571)))
    #expect(
      invite().freshness(at: at(701_000), serverOffset: .seconds(-600))
        == .rings(remaining: .seconds(29)))
    #expect(invite().age(at: at(701_000), serverOffset: .seconds(-600)) == .seconds(1))
  }

  @Test func vendorsSayNoDeadline() {
    #expect(invite(deadline: nil).freshness(at: at(1), serverOffset: .seconds(0)) == .unknown)
    #expect(
      invite(sent: nil).freshness(at: at(131_000), serverOffset: .seconds(0))
        == .expired(since: .seconds(1)))
    #expect(invite(sent: nil).age(at: at(1)) == nil)
  }
}
