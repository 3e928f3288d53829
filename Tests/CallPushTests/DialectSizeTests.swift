import CallClient
import CallCore
import CallPush
import Testing

/// Payloads fit to the byte, and the order of omission is fixed.
@Suite struct DialectSizeTests {
  struct Case {
    var provider: PushProvider
    var purpose: PushPurpose
    var limit: Int
  }

  static let cases: [Case] =
    [
      (.apns, .ring, 5120), (.apns, .cancel, 5120), (.apns, .ended, 4096),
      (.apns, .missedNotice, 4096), (.fcm, .ring, 4096), (.webPush, .ring, 3993),
    ].map { Case(provider: $0, purpose: $1, limit: $2) }

  /// With what FCM adds for an iPhone.
  private func whole(_ payload: PushPayload?) -> Int? {
    payload.map { $0.bytes.count + $0.apple.count }
  }

  /// A capability is never omitted, so the tests use it to reach any size.
  func filled(_ size: Case, to count: Int) -> PayloadOutcome {
    let job = pushJob(size.purpose, provider: size.provider)
    let bare = whole(encode(job, capability: "x").payload)! - 1
    return encode(job, capability: String(repeating: "x", count: count - bare))
  }

  /// The fixture has no headers and no names, so the caller's device is omitted first.
  @Test(arguments: cases) func aByteMoreThanFitsSheds(size: Case) {
    let isFlat = size.provider == .fcm
    let device = #","device":"ann-phone""#.utf8.count + (isFlat ? 4 : 0)
    let placed = #","placedAtMs":1790000000000"#.utf8.count + (isFlat ? 2 : 0)
    for (more, shed, count) in [
      (0, [], size.limit), (1, [.callerDevice], size.limit + 1 - device),
      (device + placed, [.callerDevice, .placedAt], size.limit),
    ] as [(Int, [OptionalPart], Int)] {
      let payload = filled(size, to: size.limit + more).payload
      #expect(payload?.shed == shed)
      #expect(whole(payload) == count)
    }
    let outcome = filled(size, to: size.limit + device + placed + 1)
    #expect(outcome == .refused(.tooLarge(bytes: size.limit + 1, limit: size.limit)))
    #expect(outcome.rejection == .rejected(reason: "payloadTooLarge"))
  }

  /// One header has text of several bytes a character, and each size around the limit is tried.
  @Test(arguments: ["x", "ß", "€", "\u{1F600}", "\"", "\\", "\u{1}"])
  func textOfSeveralBytes(character: String) throws {
    func ring(_ count: Int) -> PushPayload? {
      let value = String(repeating: character, count: count)
      return encode(pushJob(headers: [CustomHeader(name: "h", value: value)])).payload
    }
    let sizes = try (0...2).map { try #require(ring($0)).bytes.count }
    let most = (5120 - sizes[0]) / (sizes[2] - sizes[1])
    #expect(most > 3)
    for count in (most - 3)...(most + 3) {
      let payload = try #require(ring(count))
      #expect(payload.bytes.count <= 5120)
      #expect(String(validating: payload.bytes, as: UTF8.self) != nil)
      #expect(payload.shed == (count <= most ? [] : [.headers]))
    }
  }

  @Test func headersGoFromTheLastAndNoMoreThanNeeded() throws {
    let headers = (0..<32).map {
      CustomHeader(name: "H\($0)", value: String(repeating: "\"", count: 110))
    }
    let payload = try #require(encode(pushJob(headers: headers)).payload)
    #expect(payload.shed == [.headers])
    let invite = try #require(PushReader(.callmesh).read(payload.bytes).invite)
    // A prefix of what there was, and one more would not have fitted.
    #expect(invite.headers == Array(headers.prefix(invite.headers.count)))
    let one = 25 + 2 + (invite.headers.count > 9 ? 1 : 0) + 220
    #expect(payload.bytes.count + one > 5120)
    #expect(invite.headers.count > 15)
  }

  /// The parts that are omitted as the capability grows.
  private func omissions(from job: PushJob) -> [[OptionalPart]] {
    var orders: [[OptionalPart]] = []
    for count in 4000..<5200 {
      guard let shed = encode(job, capability: String(repeating: "c", count: count)).payload?.shed
      else { break }
      if orders.last != shed { orders.append(shed) }
    }
    return orders
  }

  @Test func partsGoInTheirOrder() {
    func prefixes(_ parts: [OptionalPart]) -> [[OptionalPart]] {
      (0...parts.count).map { Array(parts.prefix($0)) }
    }
    let end = pushJob(
      .cancel,
      caller: Party(user: "ann", device: "ann-phone", deviceName: "Ann's phone", name: "Ann Lee"),
      headers: [CustomHeader(name: "a", value: "b")], reason: .declined,
      by: Party(user: "bob", device: "bob-tablet", deviceName: "Bob's tablet"))
    let all: [OptionalPart] = [
      .headers, .byDeviceName, .callerDeviceName, .byDevice, .callerDevice, .placedAt, .pushData,
      .callerName,
    ]
    #expect(OptionalPart.allCases == all)
    // Only what rings has data.
    #expect(omissions(from: end) == prefixes(all.filter { $0 != .pushData }))
    let ring = pushJob(
      caller: Party(user: "ann", device: "ann-phone", name: "Ann Lee"), pushData: "some data")
    #expect(omissions(from: ring) == prefixes([.callerDevice, .placedAt, .pushData, .callerName]))
  }

  /// As much text as a caller may give, beside headers that do not fit with it.
  @Test(arguments: ["x", "ß", "\u{1F600}"], [false, true])
  func theLongestDataFit(character: String, isAlert: Bool) {
    let headers = (0..<32).map {
      CustomHeader(name: "H\($0)", value: String(repeating: "v", count: 120))
    }
    let jobs = pushJobs {
      ($0.headers, $0.hasAlertToken) = (headers, isAlert)
      $0.pushData = String(repeating: character, count: 1024 / character.utf8.count)
    }
    for job in jobs where job.purpose == .ring {
      let outcome = encode(job, capability: String(repeating: "c", count: 464))
      guard let payload = outcome.payload else {
        #expect(outcome == .noSuchPush)
        continue
      }
      #expect(!payload.shed.contains(.pushData))
      #expect(
        payload.bytes.count <= PayloadEncoder.bytesMaximum(job.token.provider, payload.kind))
    }
  }

  /// Where escapes make them several times as long, they are left out, and the push is sent.
  @Test func dataOfEscapesAreLeftOut() throws {
    let data = String(repeating: "\u{1}", count: 1024)
    let payload = try #require(encode(pushJob(provider: .fcm, pushData: data)).payload)
    #expect(payload.shed.contains(.pushData))
    #expect(try PushReader(.callmesh).read(payload.bytes).invite?.pushData == "")
  }

  /// The mandatory parts always fit: the largest ids that the cluster accepts, in every dialect.
  @Test func theLargestIdsFit() {
    let user = String(repeating: "\"", count: 128)
    let party = Party(
      user: user, device: DeviceID(String(repeating: "\\", count: 64)),
      deviceName: String(repeating: "\"", count: 128))
    let jobs = pushJobs {
      $0.user = UserKey(app: "demo", user: user)
      ($0.caller, $0.by, $0.reason) = (party, party, .answeredElsewhere)
      $0.headers = (0..<32).map { _ in
        CustomHeader(name: "\"\"\"", value: String(repeating: "\\", count: 125))
      }
      $0.pushData = String(repeating: "\"", count: 1024)
    }
    for job in jobs {
      let outcome = encode(job, capability: String(repeating: "c", count: 464))
      if outcome == .noSuchPush { continue }
      #expect(outcome.payload != nil, "\(job.row): \(outcome.text)")
    }
  }
}
