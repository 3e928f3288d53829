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

  static let cases: [Case] = [
    Case(provider: .apns, purpose: .ring, limit: 5120),
    Case(provider: .apns, purpose: .cancel, limit: 5120),
    Case(provider: .apns, purpose: .ended, limit: 4096),
    Case(provider: .apns, purpose: .missedNotice, limit: 4096),
    Case(provider: .fcm, purpose: .ring, limit: 4096),
    Case(provider: .webPush, purpose: .ring, limit: 3993),
  ]

  /// With what FCM adds for an iPhone.
  private func whole(_ payload: PushPayload?) -> Int? {
    payload.map { $0.bytes.count + $0.apple.count }
  }

  /// A capability is never omitted, so the tests use it to reach any size.
  func filled(_ size: Case, to count: Int, headers: [CustomHeader] = []) -> PayloadOutcome {
    let job = pushJob(size.purpose, provider: size.provider, headers: headers)
    let bare = whole(encode(job, capability: "x").payload)! - 1
    return encode(job, capability: String(repeating: "x", count: count - bare))
  }

  @Test(arguments: cases) func theLastByteThatFits(size: Case) {
    let payload = filled(size, to: size.limit).payload
    #expect(whole(payload) == size.limit)
    #expect(payload?.shed == [])
  }

  @Test(arguments: cases) func oneByteMoreSheds(size: Case) {
    // The fixture has no headers and no names, so the caller's device is omitted first.
    let payload = filled(size, to: size.limit + 1).payload
    #expect(payload?.shed == [.callerDevice])
    #expect(
      whole(payload) == size.limit + 1 - #","device":"ann-phone""#.utf8.count
        - (size.provider == .fcm ? 4 : 0))
  }

  @Test(arguments: cases) func whatNeverFitsIsRefused(size: Case) {
    let device = #","device":"ann-phone""#.utf8.count + (size.provider == .fcm ? 4 : 0)
    let placed = #","placedAtMs":1790000000000"#.utf8.count + (size.provider == .fcm ? 2 : 0)
    let last = filled(size, to: size.limit + device + placed).payload
    #expect(last?.shed == [.callerDevice, .placedAt])
    #expect(whole(last) == size.limit)

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
    var seen = (kept: 0, left: 0)
    let each =
      try #require(ring(2)).bytes.count - (try #require(ring(1))).bytes.count
    let most = (5120 - (try #require(ring(0))).bytes.count) / each
    for count in max(0, most - 3)...(most + 3) {
      let payload = try #require(ring(count))
      #expect(payload.bytes.count <= 5120)
      #expect(String(validating: payload.bytes, as: UTF8.self) != nil)
      if count <= most {
        #expect(payload.shed == [])
        seen.kept += 1
      } else {
        #expect(payload.shed == [.headers])
        seen.left += 1
      }
    }
    #expect(seen.kept > 1 && seen.left == 3)
  }

  @Test func headersGoFromTheLastAndNoMoreThanNeeded() throws {
    let headers = (0..<32).map {
      CustomHeader(name: "H\($0)", value: String(repeating: "\"", count: 110))
    }
    let payload = try #require(encode(pushJob(headers: headers)).payload)
    #expect(payload.shed == [.headers])
    guard case .invite(let invite) = try PushReader(.callmesh).read(payload.bytes) else {
      Issue.record("no invite")
      return
    }
    // A prefix of what there was, and one more would not have fitted.
    #expect(invite.headers == Array(headers.prefix(invite.headers.count)))
    let one = 25 + 2 + (invite.headers.count > 9 ? 1 : 0) + 220
    #expect(payload.bytes.count + one > 5120)
    #expect(invite.headers.count > 15)
  }

  @Test func partsGoInTheirOrder() throws {
    let by = Party(user: "bob", device: "bob-tablet", deviceName: "Bob's tablet")
    let job = pushJob(
      .cancel,
      caller: Party(user: "ann", device: "ann-phone", deviceName: "Ann's phone", name: "Ann Lee"),
      headers: [CustomHeader(name: "a", value: "b")], reason: .declined, by: by)
    var orders: [[OptionalPart]] = []
    for count in stride(from: 4000, to: 5200, by: 1) {
      guard let shed = encode(job, capability: String(repeating: "c", count: count)).payload?.shed
      else { break }
      if orders.last != shed { orders.append(shed) }
    }
    let all: [OptionalPart] = [
      .headers, .byDeviceName, .callerDeviceName, .byDevice, .callerDevice, .placedAt, .pushData,
      .callerName,
    ]
    #expect(OptionalPart.allCases == all)
    // Only what rings has data.
    let possible = all.filter { $0 != .pushData }
    #expect(orders == (0...possible.count).map { Array(possible.prefix($0)) })
  }

  @Test func dataGoBeforeTheCallersName() throws {
    let job = pushJob(
      caller: Party(user: "ann", device: "ann-phone", name: "Ann Lee"), pushData: "some data")
    var orders: [[OptionalPart]] = []
    for count in stride(from: 4000, to: 5200, by: 1) {
      guard let shed = encode(job, capability: String(repeating: "c", count: count)).payload?.shed
      else { break }
      if orders.last != shed { orders.append(shed) }
    }
    let all: [OptionalPart] = [.callerDevice, .placedAt, .pushData, .callerName]
    #expect(orders == (0...all.count).map { Array(all.prefix($0)) })
  }

  /// As much text as a caller may give, beside headers that do not fit with it.
  @Test(arguments: PushDialect.allCases, [PushProvider.apns, .fcm, .webPush])
  func theLongestDataFit(dialect: PushDialect, provider: PushProvider) throws {
    let headers = (0..<32).map {
      CustomHeader(name: "H\($0)", value: String(repeating: "v", count: 120))
    }
    for data in [
      String(repeating: "x", count: 1024), String(repeating: "ß", count: 512),
      String(repeating: "\u{1F600}", count: 256),
    ] {
      for isAlert in [false, true] {
        let job = pushJob(
          dialect: dialect, provider: provider, headers: headers, pushData: data,
          hasAlertToken: isAlert)
        let outcome = encode(job, capability: String(repeating: "c", count: 464))
        guard let payload = outcome.payload else {
          #expect(outcome == .noSuchPush)
          continue
        }
        #expect(!payload.shed.contains(.pushData))
        #expect(
          payload.bytes.count <= PayloadEncoder.bytesMaximum(provider, payload.kind))
      }
    }
  }

  /// Where escapes make them several times as long, they are left out, and the push is sent.
  @Test func dataOfEscapesAreLeftOut() throws {
    let data = String(repeating: "\u{1}", count: 1024)
    let payload = try #require(encode(pushJob(provider: .fcm, pushData: data)).payload)
    #expect(payload.shed.contains(.pushData))
    guard case .invite(let invite) = try PushReader(.callmesh).read(payload.bytes) else {
      Issue.record("no invite")
      return
    }
    #expect(invite.pushData == "")
  }

  /// The mandatory parts always fit: the largest ids that the cluster accepts, in every dialect.
  @Test func theLargestIdsFit() {
    let user = String(repeating: "\"", count: 128)
    let party = Party(
      user: user, device: DeviceID(String(repeating: "\\", count: 64)),
      deviceName: String(repeating: "\"", count: 128))
    let headers = (0..<32).map { _ in
      CustomHeader(name: "\"\"\"", value: String(repeating: "\\", count: 125))
    }
    for dialect in PushDialect.allCases {
      for purpose in PushPurpose.allCases {
        for provider in [PushProvider.apns, .fcm, .webPush] {
          var job = pushJob(
            purpose, dialect: dialect, provider: provider, caller: party, headers: headers,
            reason: .answeredElsewhere, by: party,
            pushData: String(repeating: "\"", count: 1024))
          job.user = UserKey(app: "demo", user: user)
          let outcome = encode(job, capability: String(repeating: "c", count: 464))
          if outcome == .noSuchPush { continue }
          #expect(outcome.payload != nil, "\(dialect) \(purpose) \(provider): \(outcome.text)")
        }
      }
    }
  }
}
