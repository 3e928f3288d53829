import CallClient
import CallCore
import CallPush
import CallWire
import Testing

/// The pushes of each dialect, and how providers handle them.
@Suite struct DialectTableTests {
  struct Row {
    var dialect: PushDialect
    var provider: PushProvider
    /// Those of the four VoIP purposes that it has.
    var voip: [PushPurpose]
  }

  static let rows: [Row] = [
    Row(dialect: .callmesh, provider: .apns, voip: [.ring, .missed, .answeredElsewhere, .cancel]),
    Row(dialect: .callmesh, provider: .fcm, voip: [.ring, .missed, .answeredElsewhere, .cancel]),
    Row(dialect: .apple, provider: .apns, voip: [.ring]),
    Row(dialect: .apple, provider: .fcm, voip: []),
    Row(dialect: .fcsdk, provider: .apns, voip: [.ring]),
    Row(dialect: .fcsdk, provider: .fcm, voip: []),
    Row(dialect: .telnyx, provider: .apns, voip: [.ring, .missed, .answeredElsewhere]),
    Row(dialect: .telnyx, provider: .fcm, voip: [.ring, .missed]),
    Row(dialect: .twilio, provider: .apns, voip: [.ring, .cancel]),
    Row(dialect: .twilio, provider: .fcm, voip: [.ring, .cancel]),
    Row(dialect: .sinch, provider: .apns, voip: [.ring]),
    Row(dialect: .sinch, provider: .fcm, voip: []),
  ]

  @Test(arguments: rows) func whatADialectHas(row: Row) {
    for purpose in [PushPurpose.ring, .missed, .answeredElsewhere, .cancel] {
      let outcome = encode(pushJob(purpose, dialect: row.dialect, provider: row.provider))
      if row.voip.contains(purpose) {
        #expect(outcome.payload?.kind == .voip)
        #expect(outcome.rejection == nil)
      } else {
        #expect(outcome == .noSuchPush)
        #expect(outcome.rejection == .rejected(reason: "dialectHasNone"))
      }
    }
  }

  /// The core must not decide on a push that no gateway can write: the phone would ring on.
  @Test func theCoreKnowsWhatDialectsHave() {
    for dialect in PushDialect.allCases {
      for purpose in PushPurpose.allCases {
        for provider in PushProvider.allCases {
          let outcome = encode(pushJob(purpose, dialect: dialect, provider: provider))
          #expect(
            dialect.has(purpose, at: provider) == (outcome.payload != nil),
            "\(dialect) \(purpose) \(provider)")
        }
      }
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

  /// The handler in Telnyx's guide of version 3 looks for this text, and ends the call as answered elsewhere.
  @Test(arguments: [PushProvider.apns, .fcm]) func telnyx3IsStopped(provider: PushProvider) throws {
    let job = pushJob(
      .missed, dialect: .telnyx, provider: provider, reason: .answeredElsewhere,
      by: Party(user: "bob", device: "bob-tablet"))
    let payload = try #require(encode(job).payload)
    let text = PayloadValue(json: payload.bytes)
    let word = provider == .apns ? text?["aps"]?["alert"]?.text : text?["message"]?.text
    #expect(word == "Missed call!")
    let news = try PushReader(.telnyx, sdkMajorVersion: 3).read(payload.bytes)
    guard case .stop(let stop) = news else {
      Issue.record("no stop")
      return
    }
    #expect(stop.callKitReason == 4 && stop.by?.device == "bob-tablet")
  }

  @Test func allRowsAreThere() {
    let pairs = Set(Self.rows.map { "\($0.dialect) \($0.provider)" })
    #expect(pairs.count == PushDialect.allCases.count * 2)
    for dialect in PushDialect.allCases {
      for purpose in PushPurpose.allCases {
        #expect(encode(pushJob(purpose, dialect: dialect, provider: .none)) == .noSuchPush)
        #expect(encode(pushJob(purpose, dialect: dialect, provider: .webPush)).payload != nil)
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
    for dialect in PushDialect.allCases {
      for purpose in PushPurpose.allCases {
        let job = pushJob(purpose, dialect: dialect, provider: .fcm, video: true, reason: .busy)
        guard let bytes = encode(job).payload?.bytes else { continue }
        guard case .object(let members)? = PayloadValue(json: bytes) else {
          Issue.record("\(dialect) \(purpose): no object")
          continue
        }
        for (key, value) in members {
          #expect(value.text != nil, "\(dialect) \(key)")
          let word = key.lowercased()
          let reserved =
            ["from", "message_type", "collapse_key", "notification"].contains(word)
            || word.hasPrefix("gcm") || word.hasPrefix("google")
          #expect(!reserved, "\(key)")
        }
        #expect(members["aps"] == nil)
      }
    }
  }

  @Test func everyPushSaysCallTimesAndCapability() throws {
    for dialect in PushDialect.allCases {
      for purpose in PushPurpose.allCases {
        for provider in [PushProvider.apns, .webPush] {
          let outcome = encode(pushJob(purpose, dialect: dialect, provider: provider))
          guard let bytes = outcome.payload?.bytes else { continue }
          let note = PayloadValue(json: bytes)?["callmesh"]
          #expect(note?["call"]?.text == "6ba7b810-9dad-11d1-80b4-00c04fd430c8")
          #expect(note?["sentAtMs"]?.wholeNumber == 1_790_000_000_020)
          #expect(note?["deadlineMs"]?.wholeNumber == 1_790_000_030_000)
          #expect(note?["capability"]?.text == "cap")
        }
      }
    }
  }
}
