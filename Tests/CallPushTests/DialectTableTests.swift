import CallCore
import CallPush
import CallWire
import Testing

/// The pushes of each dialect, and how providers handle them.
@Suite struct DialectTableTests {
  /// Those of the four VoIP purposes that each dialect has.
  static let rows: [(PushDialect, PushProvider, [PushPurpose])] = [
    (.callmesh, .apns, [.ring, .missed, .answeredElsewhere, .cancel]),
    (.callmesh, .fcm, [.ring, .missed, .answeredElsewhere, .cancel]),
    (.apple, .apns, [.ring]), (.apple, .fcm, []), (.fcsdk, .apns, [.ring]), (.fcsdk, .fcm, []),
    (.telnyx, .apns, [.ring, .missed, .answeredElsewhere]), (.telnyx, .fcm, [.ring, .missed]),
    (.twilio, .apns, [.ring, .cancel]), (.twilio, .fcm, [.ring, .cancel]),
    (.sinch, .apns, [.ring]), (.sinch, .fcm, []),
  ]

  @Test(arguments: rows)
  func whatADialectHas(dialect: PushDialect, provider: PushProvider, voip: [PushPurpose]) {
    for purpose in [PushPurpose.ring, .missed, .answeredElsewhere, .cancel] {
      let outcome = encode(pushJob(purpose, dialect: dialect, provider: provider))
      if voip.contains(purpose) {
        #expect(outcome.payload?.kind == .voip)
        #expect(outcome.rejection == nil)
      } else {
        #expect(outcome == .noSuchPush)
        #expect(outcome.rejection == .rejected(reason: "dialectHasNone"))
      }
    }
  }

  @Test func allRowsAreThere() {
    #expect(Set(Self.rows.map { "\($0.0) \($0.1)" }).count == PushDialect.allCases.count * 2)
    for job in pushJobs([.none]) { #expect(encode(job) == .noSuchPush) }
    for job in pushJobs([.webPush]) { #expect(encode(job).payload != nil) }
  }

  /// The core must not decide on a push that no gateway can write: the phone would ring on.
  @Test func theCoreKnowsWhatDialectsHave() {
    for job in pushJobs(PushProvider.allCases) {
      let isWritten = encode(job).payload != nil
      #expect(job.dialect.has(job.purpose, at: job.token.provider) == isWritten, "\(job.row)")
    }
  }

  /// Whatever a device declares.
  @Test(arguments: PushDialect.allCases, [PushProvider.apns, .fcm, .webPush])
  func whatIsDecidedCanBeWritten(dialect: PushDialect, provider: PushProvider) {
    let token = pushJob(provider: provider).token
    for raw in UInt32(0)..<32 {
      let registration = Registration(
        user: UserKey(app: "demo", user: "bob"), device: "bob-phone",
        request: RegistrationRequest(
          voipToken: token, alertToken: token, dialect: dialect.rawValue,
          capabilities: PushCapabilities(rawValue: raw)),
        registeredAt: Timestamp(microseconds: 1), seenAt: Timestamp(microseconds: 1))
      for reason in EndReason.allCases {
        guard let purpose = registration.cleanUp(of: reason) else { continue }
        #expect(purpose.isCleanUp)
        let job = pushJob(purpose, dialect: dialect, provider: provider, reason: reason)
        #expect(encode(job).payload != nil, "\(dialect) \(provider) \(raw) \(reason)")
      }
    }
  }

  @Test func alertsAndBackground() {
    #expect(encode(pushJob(.missedNotice)).payload?.kind == .alert)
    #expect(encode(pushJob(.ended)).payload?.kind == .alert)
    // Only Apple's system shows pushes by itself.
    #expect(encode(pushJob(.ended, provider: .fcm)).payload?.kind == .background)
    #expect(encode(pushJob(.ended, provider: .webPush)).payload?.kind == .background)
  }

  @Test(
    "an iPhone that has nothing but an FCM token rings by an alert",
    arguments: [
      (PushPurpose.ring, "CALLMESH_INCOMING_CALL", "time-sensitive"),
      (.ended, "CALLMESH_ANSWERED_ELSEWHERE", "passive"),
      (.missedNotice, "CALLMESH_MISSED_CALL", nil),
    ] as [(PushPurpose, String, String?)])
  func alertsThroughFCM(purpose: PushPurpose, key: String, level: String?) throws {
    let caller = Party(user: "ann", device: "ann-phone", name: "Ann Lee")
    let reason: EndReason? = purpose == .ended ? .answeredElsewhere : nil
    let payload = try #require(
      encode(pushJob(purpose, provider: .fcm, caller: caller, reason: reason)).payload)
    let alert = String(decoding: payload.apple, as: UTF8.self)
    #expect(alert.hasPrefix(#"{"aps":{"alert":{"loc-key":"\#(key)","loc-args":["Ann Lee"]}"#))
    #expect(alert.contains(#""interruption-level""#) == (level != nil))
    if let level { #expect(alert.contains(#""interruption-level":"\#(level)""#)) }
    #expect(!String(decoding: payload.bytes, as: UTF8.self).contains("aps"))
  }

  @Test func videoAndOtherSDKsThroughFCM() throws {
    let video = try #require(encode(pushJob(provider: .fcm, video: true)).payload)
    #expect(String(decoding: video.apple, as: UTF8.self).contains("CALLMESH_INCOMING_VIDEO_CALL"))
    // These SDKs are Android's.
    for dialect in [PushDialect.telnyx, .twilio] {
      #expect(encode(pushJob(dialect: dialect, provider: .fcm)).payload?.apple == [])
    }
    #expect(encode(pushJob(provider: .webPush)).payload?.apple == [])
    #expect(encode(pushJob(.missedNotice)).payload?.apple == [])
  }

  @Test func whatComesLaterReplacesWhatIsOnItsWay() {
    let hex = "6ba7b8109dad11d180b400c04fd430c8"
    for provider in [PushProvider.apns, .fcm, .webPush] {
      for purpose in PushPurpose.allCases {
        let payload = encode(pushJob(purpose, provider: provider)).payload
        // PushKit does not collapse.
        let none = provider == .apns && payload?.kind == .voip
        #expect(payload?.collapseKey == (none ? "" : hex))
      }
    }
    // Web Push: 32 characters of base64url; APNs: 64 bytes.
    #expect(hex.utf8.count == 32)
  }

  @Test func theMessageCarriesItAll() throws {
    let job = pushJob(.missedNotice)
    let payload = try #require(encode(job).payload)
    let message = payload.message(id: "id", for: job)
    #expect(message.id == "id")
    #expect(message.token == job.token)
    #expect(message.payload == payload.bytes)
    #expect(message.kind == .alert)
    #expect(message.deadline == job.deadline)
    #expect(message.collapseKey == payload.collapseKey)
    #expect(message.purpose == .missedNotice)
  }

  @Test func fcmTakesAMapOfStringsWithoutReservedKeys() throws {
    let jobs = pushJobs([.fcm]) { ($0.video, $0.reason) = (true, .busy) }
    for job in jobs {
      guard let bytes = encode(job).payload?.bytes else { continue }
      guard case .object(let members)? = PayloadValue(json: bytes) else {
        Issue.record("\(job.row): no object")
        continue
      }
      for (key, value) in members {
        #expect(value.text != nil, "\(job.row) \(key)")
        let word = key.lowercased()
        #expect(!["from", "message_type", "collapse_key", "notification"].contains(word))
        #expect(!word.hasPrefix("gcm") && !word.hasPrefix("google"), "\(key)")
      }
      #expect(members["aps"] == nil)
    }
  }
}
