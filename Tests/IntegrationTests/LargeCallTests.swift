import CallClient
import CallCore
import CallWire
import Testing

/// Calls with much to say, through real nodes: nothing of it costs a user the call.
@Suite("Large calls", .timeLimit(.minutes(3))) struct LargeCallTests {
  private static let limits = CallLimits()

  /// As large as the first one.
  private static func description(_ name: String) -> String {
    name + String(repeating: "d", count: limits.descriptionBytes - name.utf8.count)
  }

  @Test("long names, later descriptions of 64 KiB, and a cancel behind a burst of candidates")
  func muchToSay() async throws {
    let cluster = try await TestCluster.start(coordinators: 1, edges: 2)
    defer { cluster.stop() }
    // 129 bytes.
    let name = String(repeating: "ท", count: 43)
    let ann = try await TestDevice(cluster, user: "ann", "a1", deviceName: name)
    let phone = try await TestDevice(cluster, user: "bob", "b1", codec: .json, deviceName: name)
    let tablet = try await TestDevice(cluster, user: "bob", "b2")
    defer { for device in [ann, phone, tablet] { device.stop() } }
    try await namesAreCut(ann, phone, shown: String(name.dropLast()))
    try await descriptionsMayBeAsLargeAsTheFirst(ann, phone, tablet)
    try await aCancelPassesBehindCandidates(ann, phone)
  }

  /// The names that the device itself learns, and that the others learn.
  @inline(never)
  private func namesAreCut(_ ann: TestDevice, _ bob: TestDevice, shown: String) async throws {
    #expect(shown.utf8.count == 126)
    for device in [ann, bob] {
      let told = device.heard.compactMap {
        if case .attached(let info, _) = $0 { info.deviceName } else { nil }
      }
      #expect(told == [shown])
    }
    let registered = try await bob.device.register(RegistrationRequest(deviceName: shown + "ทท"))
    #expect(registered.deviceName == shown)
    let call = CallID.random()
    try await ann.device.place(PlaceRequest(call: call), to: "bob")
    try await bob.waitForInvite(call)
    let callers = bob.heard.compactMap {
      if case .call(call, .invited(let invite)) = $0 { invite.caller.deviceName } else { nil }
    }
    #expect(callers == [shown])
    try await bob.device.decline(call)
    try await ann.waitForStop(call, .declined)
    #expect(ann.stops(call).map(\.by?.deviceName) == [shown])
  }

  @inline(never)
  private func descriptionsMayBeAsLargeAsTheFirst(
    _ ann: TestDevice, _ phone: TestDevice, _ tablet: TestDevice
  ) async throws {
    let call = CallID.random()
    func renegotiates(_ from: TestDevice, _ to: TestDevice, _ name: String) async throws {
      let body = Self.description(name)
      try await from.device.signal(call, .description, body)
      try await to.wait("the description \(name)") {
        if case .call(call, .signal(let signal)) = $0 {
          signal.kind == .description && signal.body == body
        } else {
          false
        }
      }
    }
    try await tablet.device.register(RegistrationRequest())
    let offer = PlaceRequest(call: call, description: Self.description("offer"))
    try await ann.device.place(offer, to: "bob")
    try await phone.waitForInvite(call)
    #expect(try await phone.device.answer(call, description: Self.description("answer")))
    try await ann.waitForAnswer(call)
    for device in [ann, phone] { try await device.device.connected(call) }
    try await renegotiates(ann, phone, "shares a screen")
    try await renegotiates(phone, ann, "takes it")
    let pulled = Self.description("on the tablet")
    #expect(try await tablet.device.pull(call, from: "b1", description: pulled))
    try await ann.wait("the move") {
      if case .call(call, .moved(let moved)) = $0 { moved.description == pulled } else { false }
    }
    try await renegotiates(ann, tablet, "answers the tablet")
    try await renegotiates(tablet, ann, "shares another")
    try await tablet.device.hangUp(call)
    try await ann.waitForStop(call, .hungUp)
  }

  /// A command that ends a call is never refused for the rate that its candidates have used up.
  @inline(never)
  private func aCancelPassesBehindCandidates(_ ann: TestDevice, _ bob: TestDevice) async throws {
    let call = CallID.random()
    try await ann.device.place(PlaceRequest(call: call), to: "bob")
    try await bob.waitForInvite(call)
    let refused = await withTaskGroup(of: CallError.Code?.self) { tasks in
      for number in 0..<70 {
        tasks.addTask {
          do throws(CallError) {
            try await ann.device.signal(call, .candidate, "candidate \(number)")
            return nil
          } catch {
            return error.code
          }
        }
      }
      return await tasks.reduce(into: [CallError.Code]()) { codes, code in
        if let code { codes.append(code) }
      }
    }
    #expect(!refused.isEmpty && refused.allSatisfy { $0 == .rateLimited }, "\(refused)")
    try await ann.device.cancel(call)
    try await bob.waitForStop(call, .cancelled)
  }
}
