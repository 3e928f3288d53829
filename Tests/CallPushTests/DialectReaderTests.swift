import CallClient
import CallCore
import CallPush
import CallWire
import Foundation
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
  static let sent: [PushJob] = [false, true].flatMap { video in
    pushJobs {
      ($0.caller, $0.by, $0.video, $0.headers) = (caller, by, video, headers)
      $0.reason = $0.purpose == .ring ? nil : .declined
      $0.pushData = "d\"ä"
    }
  }

  /// A browser's service worker reads our dialect, whatever its app reads elsewhere.
  func reader(_ job: PushJob) -> PushReader {
    PushReader(job.token.provider == .webPush ? .callmesh : job.dialect)
  }

  @Test func everyPushComesBack() throws {
    let placedAt = Timestamp(microseconds: 1_790_000_000_000_000)
    let sentAt = placedAt + .milliseconds(20)
    var count = 0
    for job in Self.sent {
      guard let bytes = encode(job).payload?.bytes else { continue }
      count += 1
      let news = try reader(job).read(bytes)
      #expect(news.call == Self.call && news.purpose == job.purpose)
      switch news {
      case .invite(let invite):
        let wanted = PushInvite(
          call: Self.call, callee: "bob", handle: "ann ü", caller: Self.caller, video: job.video,
          headers: Self.headers, pushData: "d\"ä", placedAt: placedAt, sentAt: sentAt,
          deadline: placedAt + .seconds(30), capability: "cap")
        #expect(invite == wanted)
      case .stop(let stop):
        let wanted = PushStop(
          call: Self.call, purpose: job.purpose, callee: "bob", reason: .declined, by: Self.by,
          callKitReason: 5, sentAt: sentAt, mustReportCall: job.purpose != .ended)
        #expect(stop == wanted)
      case .missed(let notice):
        #expect(notice.handle == "ann ü" && notice.caller == Self.caller)
        #expect(notice.video == job.video && notice.reason == .declined)
        #expect(notice.placedAt == placedAt)
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
      let stop = try PushReader(dialect).read(bytes.bytes).stop
      #expect(stop?.callKitReason == expected, "\(dialect) \(purpose)")
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
    let invite = try #require(PushReader(.fcsdk).read(PayloadValue(payload)).invite)
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
    let stop = try #require(PushReader(.callmesh).read(payload.bytes).stop)
    #expect(stop.by == Party(user: "bob", device: ""))
    #expect(stop.reason == .declined)
  }

  @Test func noDescriptionShowsTheCapability() throws {
    let bytes = try #require(encode(pushJob(), capability: "s3cret").payload).bytes
    let news = try PushReader(.callmesh).read(bytes)
    let invite = try #require(news.invite)
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

  @Test(
    arguments: [
      (101_000, 0, .rings(remaining: .seconds(29))),
      (129_999, 0, .rings(remaining: .milliseconds(1))),
      (130_000, 0, .expired(since: .seconds(0))), (1_030_000, 0, .expired(since: .seconds(900))),
      // By a clock that is behind it was sent in the future: then it was sent just now.
      (10_000, 0, .rings(remaining: .seconds(30))),
      // This device is ten minutes ahead, and does not know; then it does.
      (701_000, nil, .unknown), (701_000, 0, .expired(since: .seconds(571))),
      (701_000, -600, .rings(remaining: .seconds(29))),
    ] as [(Int64, Int64?, PushInvite.Freshness)])
  func freshness(milliseconds: Int64, offset: Int64?, is freshness: PushInvite.Freshness) {
    let offset = offset.map { Span.seconds($0) }
    #expect(invite().freshness(at: at(milliseconds), serverOffset: offset) == freshness)
  }

  @Test func age() {
    #expect(invite().age(at: at(10_000)) == .seconds(0))
    #expect(invite().age(at: at(103_000)) == .seconds(3))
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

/// The payloads that docs/device-protocol.md shows are such as we send and read.
@Suite struct DialectDocumentTests {
  static let lines: [Substring] = {
    let folder = URL(filePath: #filePath).deletingLastPathComponent()
    let path = folder.appending(path: "../../docs/device-protocol.md")
    let text = (try? String(contentsOf: path, encoding: .utf8)) ?? ""
    return text.split(separator: "\n", omittingEmptySubsequences: false)
  }()

  @Test func payloadsAreReadAndSent() throws {
    let start = try #require(Self.lines.firstIndex(of: "```json push")) + 1
    let end = try #require(Self.lines[start...].firstIndex(of: "```"))
    let shown = Self.lines[start..<end].map(String.init)
    let news = try shown.map { try PushReader(.callmesh).read(payload($0)) }
    #expect(news.count == 3)
    let (invite, stop) = try (#require(news[0].invite), #require(news[1].stop))
    #expect(invite.headers.count == 1 && invite.capability != nil)
    #expect(invite.pushData == #"{"room":7}"#)
    #expect(stop.callKitReason == 4)
    #expect(news[2].missed?.handle == "ann")

    // The first is, to the letter, what we write.
    let job = pushJob(
      caller: Party(
        user: "ann", device: "ann-phone", deviceName: "Ann's phone", name: "Ann Lee"), video: true,
      headers: [CustomHeader(name: "X-Team", value: "support")], pushData: #"{"room":7}"#)
    #expect(encode(job, capability: "…").text == shown[0])
  }
}
