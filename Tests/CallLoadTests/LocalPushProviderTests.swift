import CallCore
import CallLoadKit
import CallProcesses
import CallPush
import CallTestKit
import FoundationEssentials
import Testing

/// The provider that callload plays.
@Suite struct LocalPushProviderTests {
  static let roster = Roster(devices: 60, devicesPerUser: 3)
  static let plan = SleepPlan(SleepOptions(share: 0.5), roster: roster, seed: 3)

  func provider(_ folder: TemporaryFolder) async throws -> LocalPushProvider {
    try await LocalPushProvider.start(Self.plan, Self.roster, in: folder)
  }

  @Test func whatTheProviderFindsWrongIsCountedOnce() async throws {
    let folder = try TemporaryFolder("callload")
    defer { folder.remove() }
    let provider = try await provider(folder)
    var result = RunResult()
    result.pushes = PushResult()
    provider.report(into: &result)
    #expect(result.correctness[.pushContract] ?? 0 == 0)

    provider.simulator.note(
      .indexedPath, about: push(to: Self.plan.sleepers[0], [UInt8]("{}".utf8)))
    provider.report(into: &result)
    #expect(result.correctness[.pushContract] == 1)
    #expect(result.examples[.pushContract]?.first?.contains("indexedPath") == true)

    // The next stage is judged by what is new.
    var next = RunResult()
    next.pushes = PushResult()
    provider.report(into: &next)
    #expect(next.correctness[.pushContract] ?? 0 == 0)
    await provider.stop()
  }

  /// The devices behind the provider read what each one's SDK reads, and no other.
  @Test func devicesKnowTheirDialect() async throws {
    let folder = try TemporaryFolder("callload")
    defer { folder.remove() }
    let provider = try await provider(folder)
    let devices = try #require(provider.simulator.options.devices)
    for device in Self.plan.sleepers {
      let profile = try #require(Self.plan.profile(device))
      for dialect in PushDialect.allCases {
        let payload = try #require(encoded(.ring, dialect, device))
        let violations = devices.check(push(to: device, payload, id: "\(dialect)"))
        // Ours stands in all of them.
        let reads = dialect == profile.dialect || profile.dialect == .callmesh
        #expect(violations.contains(.unreadablePush) != reads, "\(profile.dialect) \(dialect)")
      }
      if let payload = encoded(.cancel, profile.dialect, device) {
        let violations = devices.check(push(to: device, payload, id: "end"))
        #expect(violations.contains(.unwantedEndPush) != profile.takes.contains(.cancel))
      }
    }
    await provider.stop()
  }

  @Test func theGatewaysAreToldWhereItIs() async throws {
    let folder = try TemporaryFolder("callload")
    defer { folder.remove() }
    let provider = try await provider(folder)
    let bytes = try #require(
      FileManager.default.contents(atPath: folder.file(LocalPushProvider.providersFile)))
    let text = String(decoding: bytes, as: UTF8.self)
    #expect(text.contains("\(provider.simulator.port)"))
    #expect(text.contains(SleepPlan.bundle))
    // The key stands in a file of its own.
    #expect(!text.contains("PRIVATE KEY"))
    await provider.stop()
  }

  private func encoded(_ purpose: PushPurpose, _ dialect: PushDialect, _ device: Int) -> [UInt8]? {
    guard let token = Self.plan.voipToken(device) else { return nil }
    let time = Timestamp(microseconds: 1_790_000_000_000_000)
    let job = PushJob(
      user: UserKey(app: "load", user: "u1"), device: "d1", call: CallID(high: 1, low: 2),
      purpose: purpose, token: token, dialect: dialect, caller: Party(user: "u2", device: "d2"),
      video: false, headers: [], placedAt: time, ringDeadline: time + .seconds(30),
      decidedAt: time, deadline: time + .seconds(30))
    guard case .payload(let payload) = PayloadEncoder.encode(PushContent(job: job)) else {
      return nil
    }
    return payload.bytes
  }

  private func push(to device: Int, _ payload: [UInt8], id: String = "id") -> APNsPush {
    APNsPush(
      id: id, token: Self.plan.voipToken(device)?.token ?? "", type: .voip,
      topic: SleepPlan.bundle + ".voip", bundle: SleepPlan.bundle, payload: payload,
      expiration: 0, at: Timestamp(microseconds: 1), connection: 1)
  }
}
