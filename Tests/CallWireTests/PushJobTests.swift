import CallCore
import CallWire
import Testing

extension GoldenValues {
  static let pushKeys = PushKeys(keys: [Array(0..<32), Array(100..<132)])

  /// One of each purpose, provider and dialect.
  static let jobs: [(name: String, job: PushJob)] = PushPurpose.allCases.map { purpose in
    let number = Int(purpose.rawValue)
    let providers: [PushProvider] = [.apns, .fcm, .webPush]
    var job = PushJob(
      user: bob, device: "bob-phone", call: call, purpose: purpose,
      token: PushToken(
        provider: providers[number % 3], environment: "production", topic: "org.example.app.voip",
        token: "c0ffee", fingerprint: "0123456789abcdef0123456789abcdef"),
      dialect: PushDialect.allCases[number % PushDialect.allCases.count], caller: caller,
      video: purpose == .ring, headers: [CustomHeader(name: "X-Team", value: "support")],
      placedAt: at, ringDeadline: later, decidedAt: at, deadline: later)
    if purpose != .ring {
      job.reason = purpose == .missed ? .unanswered : .answeredElsewhere
      job.by = purpose == .missed ? nil : tablet
    }
    return (purpose.name, job)
  }

  static let jobOfAnUnknownRing = {
    var job = jobs.last!.job
    job.purpose = .cancel
    job.isRingUnknown = true
    return job
  }()
}

extension GoldenValues {
  static let jobWithData = {
    var job = jobs[0].job
    job.pushData = "{\"room\":7}"
    job.hasAlertToken = true
    return job
  }()
}

extension GoldenValues {
  static let jobWithUnread = {
    var job = jobs.last!.job
    job.unread = 3
    return job
  }()

  static let jobOfADoubtedToken = {
    var job = jobs[0].job
    job.trust = .doubted
    return job
  }()

  static let jobWithWebhooks = {
    var job = jobs[0].job
    job.hasWebhooks = true
    return job
  }()
}

extension Generator {
  mutating func pushJob() -> PushJob {
    var job = PushJob(
      user: UserKey(app: text(8), user: user()), device: device(), call: call(),
      purpose: PushPurpose.allCases.randomElement(using: &self)!,
      token: PushToken(
        provider: PushProvider.allCases.randomElement(using: &self)!, environment: text(8),
        topic: text(20), token: "t" + text(100), fingerprint: text(32)),
      dialect: PushDialect.allCases.randomElement(using: &self)!, caller: party(),
      video: chance(50), headers: headers(), placedAt: microseconds(),
      ringDeadline: microseconds(), decidedAt: microseconds(), deadline: microseconds(),
      reason: chance(50) ? EndReason.allCases.randomElement(using: &self)! : nil,
      by: chance(50) ? party() : nil, isRingUnknown: chance(50), pushData: body(),
      hasAlertToken: chance(50))
    job.hasWebhooks = chance(50)
    job.trust = TokenTrust.allCases.randomElement(using: &self)!
    job.unread = chance(50) ? UInt32.random(in: 0...2000, using: &self) : nil
    job.round = chance(30) ? UInt8.random(in: 0...40, using: &self) : 0
    return job
  }

  mutating func pushKeys(_ count: Int) -> PushKeys {
    var keys: [[UInt8]] = []
    for _ in 0..<count {
      keys.append((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &self) })
    }
    return PushKeys(keys: keys)
  }
}

@Suite struct PushJobTests {
  static let job = GoldenValues.jobs[0].job

  /// A gateway of before must leave what it does not understand to others.
  @Test func formsOfLaterVersionsAreRefused() throws {
    var bytes = ClusterCodec.encode(Self.job)
    #expect(bytes[0] == 0x08 && bytes[1] <= UInt8(ClusterCodec.format))
    bytes[1] = UInt8(ClusterCodec.format) + 1
    let error = #expect(throws: WireError.self) { try ClusterCodec.pushJob(bytes) }
    #expect(error?.message.contains("a newer version") == true)
    #expect(throws: WireError.self) { try ClusterCodec.pushJob([]) }
    #expect(throws: WireError.self) { try ClusterCodec.pushKeys([0x08, 9]) }
  }

  @Test func whatIsUnknownOrMissingIsNamed() throws {
    let bytes = ClusterCodec.encode(Self.job)
    // If a field comes twice, the last one counts: 6 is the purpose, 8 the dialect.
    let purpose = #expect(throws: WireError.self) { try ClusterCodec.pushJob(bytes + [0x30, 77]) }
    #expect(purpose?.message.contains("purpose") == true)
    let dialect = #expect(throws: WireError.self) {
      try ClusterCodec.pushJob(bytes + MalformedFrameTests.field(8, Array("esperanto".utf8)))
    }
    #expect(dialect?.message.contains("dialect") == true)
    let token = #expect(throws: WireError.self) { try ClusterCodec.pushJob([0x08, 1]) }
    #expect(token?.message.contains("token") == true)
  }

  /// No error repeats what may be secret.
  @Test func errorsDoNotShowTheToken() throws {
    let bytes = ClusterCodec.encode(Self.job)
    for end in 1..<bytes.count {
      do { _ = try ClusterCodec.pushJob(Array(bytes[..<end])) } catch {
        #expect(!error.message.contains(Self.job.token.token))
      }
    }
  }

  @Test func keysOfAWrongSizeAreRefused() {
    func keys(_ sizes: [Int]) -> [UInt8] {
      [0x08, 1] + sizes.flatMap { MalformedFrameTests.field(2, [UInt8](repeating: 7, count: $0)) }
    }
    #expect(throws: Never.self) { try ClusterCodec.pushKeys(keys([32, 32])) }
    for sizes in [[], [31], [33], [32, 0], Array(repeating: 32, count: PushKeys.keysMax + 1)] {
      #expect(throws: WireError.self, "\(sizes)") { try ClusterCodec.pushKeys(keys(sizes)) }
    }
  }

  @Test func randomBytesNeverTrap() {
    var generator = Generator(seed: 8)
    let bytes = ClusterCodec.encode(Self.job)
    for _ in 0..<20_000 {
      var copy = bytes
      for _ in 0..<Int.random(in: 1...4, using: &generator) {
        copy[Int.random(in: 0..<copy.count, using: &generator)] =
          UInt8.random(in: .min ... .max, using: &generator)
      }
      _ = try? ClusterCodec.pushJob(copy)
      _ = try? ClusterCodec.pushKeys(copy)
    }
  }
}
