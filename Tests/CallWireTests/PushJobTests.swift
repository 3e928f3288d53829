import CallCore
import CallWire
import Testing

extension GoldenValues {
  static let pushKeys = PushKeys(keys: [Array(0..<32), Array(100..<132)])

  /// One of each purpose, provider and dialect.
  static let jobs: [Named<PushJob>.Element] = PushPurpose.allCases.map { purpose in
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

  private static func job(
    _ job: PushJob = jobs[0].value, _ change: (inout PushJob) -> Void
  ) -> PushJob {
    var job = job
    change(&job)
    return job
  }

  static let otherJobs: Named<PushJob> = [
    "pushJobRingUnknown": job(jobs.last!.value) {
      $0.purpose = .cancel
      $0.isRingUnknown = true
    },
    "pushJobWithData": job {
      $0.pushData = "{\"room\":7}"
      $0.hasAlertToken = true
    },
    "pushJobWithUnread": job(jobs.last!.value) { $0.unread = 3 },
    "pushJobOfADoubtedToken": job { $0.trust = .doubted },
    "pushJobWithWebhooks": job { $0.hasWebhooks = true },
  ]
}

extension Generator {
  mutating func pushJob() -> PushJob {
    var job = PushJob(
      user: UserKey(app: text(8), user: user()), device: device(), call: call(),
      purpose: one(of: PushPurpose.self),
      token: PushToken(
        provider: one(of: PushProvider.self), environment: text(8),
        topic: text(20), token: "t" + text(100), fingerprint: text(32)),
      dialect: one(of: PushDialect.self), caller: party(),
      video: chance(50), headers: headers(), placedAt: microseconds(),
      ringDeadline: microseconds(), decidedAt: microseconds(), deadline: microseconds(),
      reason: maybe { $0.one(of: EndReason.self) },
      by: maybe { $0.party() }, isRingUnknown: chance(50), pushData: body(),
      hasAlertToken: chance(50))
    job.hasWebhooks = chance(50)
    job.trust = one(of: TokenTrust.self)
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
  static let job = GoldenValues.jobs[0].value

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
}
