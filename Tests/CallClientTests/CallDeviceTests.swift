import CallClient
import CallCore
import CallWire
import Synchronization
import Testing

/// Devices over a real socket, against another implementation of WebSocket.
@Suite(.timeLimit(.minutes(1))) struct CallDeviceTests {
  /// Lets a device that was started talk to a server.
  private func run(
    token: String = "token", newToken: (@Sendable () async throws -> String)? = nil,
    answer: @escaping @Sendable (ClientFrame) -> [ServerFrame]?,
    _ body: (CallDevice) async throws -> Void
  ) async throws {
    let server = try await LoopbackServer.start(answer: answer)
    let device = CallDevice(
      .init(edges: [server.url], token: token, device: "d1"), newToken: newToken)
    device.start()
    try await body(device)
    device.stop()
    try await server.stop()
  }

  /// The first event that is wanted.
  private func first<Value>(
    of device: CallDevice, _ wanted: (ClientEvent) -> Value?
  ) async -> Value? {
    for await event in device.events { if let value = wanted(event) { return value } }
    return nil
  }

  private static func placed(_ address: CallAddress) -> CallState {
    CallState(call: address.call, callee: address.callee, phase: .placed, version: 1)
  }

  @Test func placesACallAndHearsHowItEnds() async throws {
    let call = CallID(high: 1, low: 2)
    try await run { frame in
      switch frame.command {
      case .attach(let attach):
        attach.token == "token" ? nil : [.reply(id: frame.id, .error(CallError(.notAccepted)))]
      case .place(let address, _):
        [
          .reply(id: frame.id, .call(Self.placed(address))),
          .delivery(
            Delivery(
              call: address.call, callee: address.callee, version: 2,
              at: Timestamp(microseconds: 0), event: .stop(Stop(reason: .declined, by: .you)))),
        ]
      case .call(_, .cancel): [.reply(id: frame.id, .error(CallError(.unknownCall)))]
      default: nil
      }
    } _: { device in
      let state = try await device.place(PlaceRequest(call: call), to: "you")
      #expect(state.phase == .placed)
      let stop = await first(of: device) {
        if case .call(call, .stopped(let stop)) = $0 { stop } else { nil }
      }
      #expect(stop?.reason == .declined)
      await #expect(throws: CallError(.unknownCall)) { try await device.cancel(call) }
      device.stop()
      var left = 0
      for await _ in device.events { left += 1 }
      #expect(left < 10)
    }
  }

  /// The token has expired; later the edge says that the next one is about to.
  @Test func aDeviceGetsNewTokensWhereItIsToldHow() async throws {
    let renewed = Mutex<String?>(nil)
    let count = Atomic(0)
    let newToken: @Sendable () async throws -> String = {
      "new \(count.add(1, ordering: .relaxed).newValue)"
    }
    try await run(token: "old", newToken: newToken) { frame in
      switch frame.command {
      case .attach(let attach) where attach.token == "old":
        return [.reply(id: frame.id, .error(CallError(.expired)))]
      case .attach(let attach) where attach.token == "new 1":
        return [
          .reply(id: frame.id, .attached(.sample)),
          .notice(Notice(kind: .tokenExpires, message: "soon")),
        ]
      case .renew(let token):
        renewed.withLock { $0 = token }
        return [.reply(id: frame.id, .done)]
      default: return [.reply(id: frame.id, .error(CallError(.notAccepted)))]
      }
    } _: { device in
      let reply = await first(of: device) {
        if case .replied(_, .renew(token: "new 2"), let reply) = $0 { reply } else { nil }
      }
      #expect(reply == .done)
      #expect(renewed.withLock { $0 } == "new 2")
    }
  }

  /// Two edges, one of which goes away: the device is attached to the other before it leaves.
  @Test func movesToAnotherEdgeWithoutAMomentAlone() async throws {
    let goAway = Notice(kind: .goAway, message: "This edge goes away.")
    let leaving = try await LoopbackServer.start { frame in
      guard case .attach = frame.command else { return [] }
      return [.reply(id: frame.id, .attached(.sample)), .notice(goAway)]
    }
    var info = AttachedInfo.sample
    info.session = "the other edge"
    let other = info
    let staying = try await LoopbackServer.start { frame in
      switch frame.command {
      case .attach: [.reply(id: frame.id, .attached(other))]
      case .place(let address, _): [.reply(id: frame.id, .call(Self.placed(address)))]
      default: []
      }
    }
    let device = CallDevice(.init(edges: [leaving.url, staying.url], token: "token", device: "d1"))
    device.start()
    var heard: [ClientEvent] = []
    for await event in device.events {
      heard.append(event)
      if case .attached(other, _) = event { break }
    }
    #expect(
      heard == [.attached(.sample, again: false), .notice(goAway), .attached(other, again: true)])
    // A command that is sent now goes to the other edge.
    try await leaving.stop()
    let state = try await device.place(PlaceRequest(call: CallID(high: 3, low: 4)), to: "you")
    #expect(state.phase == .placed)
    device.stop()
    try await staying.stop()
  }

  /// A push woke the app: it attaches for the call, and learns what became of it.
  @Test func isWokenForACall() async throws {
    let call = CallID(high: 5, low: 6)
    let by = Party(user: "me", device: "d2", deviceName: "Tablet")
    let server = try await LoopbackServer.start { frame in
      guard case .attach(let attach) = frame.command else { return [] }
      var info = AttachedInfo.sample
      info.forCall = attach.forCall.map {
        CallState(call: $0, callee: "me", phase: .ended, reason: .answeredElsewhere, by: by)
      }
      return [.reply(id: frame.id, .attached(info))]
    }
    let device = CallDevice(.init(edges: [server.url], token: "token", device: "d1"))
    device.woken(for: call)
    var answer: WakeAnswer?
    for await event in device.events {
      if case .attached(let info, _) = event { answer = info.forCall?.wakeAnswer }
      guard case .call(call, let news) = event else { continue }
      #expect(news == .stopped(Stop(reason: .answeredElsewhere, by: by)))
      break
    }
    #expect(answer == .answeredElsewhere(by: by))
    device.stop()
    try await server.stop()
  }

  @Test func readsAndSetsRules() async throws {
    let desk = UserRules(onBusy: UserRules.Forward(users: ["desk"]))
    var kept = desk
    kept.changedAt = Timestamp(microseconds: 7000)
    let answer = kept
    try await run { frame in
      switch frame.command {
      case .rules(.read): [.reply(id: frame.id, .rules(UserRules()))]
      case .rules(.write(desk)): [.reply(id: frame.id, .rules(answer))]
      case .rules: [.reply(id: frame.id, .error(CallError(.invalidRules)))]
      default: nil
      }
    } _: { device in
      let (before, stored) = (try await device.rules(), try await device.setRules(desk))
      #expect(before == UserRules() && stored == answer)
      await #expect(throws: CallError(.invalidRules)) { try await device.setRules(UserRules()) }
    }
  }

  @Test func registersWithWhatStands() async throws {
    let info = RegisteredInfo(
      device: "d1", expiresAt: Timestamp(microseconds: 5000), removed: ["old"],
      capabilities: [.missedNotice])
    try await run { frame in
      switch frame.command {
      case .register(let request):
        [
          .reply(
            id: frame.id,
            request.capabilities == [.missedNotice]
              ? .registered(info) : .error(CallError(.unknownCapability))),
          .notice(Notice(kind: .tokenTaken, message: "Another device registered this token.")),
        ]
      case .unregister: [.reply(id: frame.id, .done)]
      default: nil
      }
    } _: { device in
      let request = RegistrationRequest(
        alertToken: PushToken(provider: .fcm, environment: "", topic: "p", token: "t"),
        capabilities: [.missedNotice])
      #expect(try await device.register(request) == info)
      try await device.unregister()
      await #expect(throws: CallError(.unknownCapability)) {
        try await device.register(RegistrationRequest())
      }
      let notice = await first(of: device) {
        if case .notice(let notice) = $0 { notice } else { nil }
      }
      #expect(notice?.kind == .tokenTaken)
    }
  }
}
