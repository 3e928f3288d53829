import CallClient
import CallCore
import CallWire
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1))) struct CallDeviceTests {
  /// Over a real socket, against another implementation of WebSocket.
  @Test func placesACallAndHearsHowItEnds() async throws {
    let callee = Party(user: "you", device: "y")
    let server = try await LoopbackServer.start { frame in
      switch frame.command {
      case .attach(let attach):
        guard attach.token == "token" else {
          return [.reply(id: frame.id, .error(CallError(.notAccepted)))]
        }
        return [.reply(id: frame.id, .attached(.sample))]
      case .place(let address, _):
        let state = CallState(
          call: address.call, callee: address.callee, phase: .placed, version: 1)
        let stop = Delivery(
          call: address.call, callee: address.callee, version: 2, at: Timestamp(microseconds: 0),
          event: .stop(Stop(reason: .declined, by: callee)))
        return [.reply(id: frame.id, .call(state)), .delivery(stop)]
      case .call(_, .cancel): return [.reply(id: frame.id, .error(CallError(.unknownCall)))]
      default: return []
      }
    }
    let device = CallDevice(
      .init(edges: ["ws://127.0.0.1:\(server.port)"], token: "token", device: "d1"))
    device.start()
    let call = CallID(high: 1, low: 2)
    let state = try await device.place(PlaceRequest(call: call), to: "you")
    #expect(state.phase == .placed)
    for await event in device.events {
      guard case .call(call, .stopped(let stop)) = event else { continue }
      #expect(stop.reason == .declined)
      break
    }
    await #expect(throws: CallError(.unknownCall)) { try await device.cancel(call) }
    device.stop()
    var left = 0
    for await _ in device.events { left += 1 }
    #expect(left < 10)
    try await server.stop()
  }

  @Test func aRefusedDeviceSaysSo() async throws {
    let server = try await LoopbackServer.start { frame in
      [.reply(id: frame.id, .error(CallError(.notAccepted)))]
    }
    let device = CallDevice(
      .init(edges: ["ws://127.0.0.1:\(server.port)"], token: "bad", device: "d1"))
    device.start()
    for await event in device.events {
      guard case .refused(let error) = event else { continue }
      #expect(error.code == .notAccepted)
      break
    }
    device.stop()
    try await server.stop()
  }

  /// The token has expired; later the edge says that the next one is about to.
  @Test func aDeviceGetsNewTokensWhereItIsToldHow() async throws {
    let renewed = Mutex<String?>(nil)
    let server = try await LoopbackServer.start { frame in
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
    }
    let count = Atomic(0)
    let device = CallDevice(
      .init(edges: ["ws://127.0.0.1:\(server.port)"], token: "old", device: "d1"),
      newToken: { "new \(count.add(1, ordering: .relaxed).newValue)" })
    device.start()
    for await event in device.events {
      guard case .replied(_, .renew(let token), let reply) = event else { continue }
      #expect(token == "new 2" && reply == .done)
      break
    }
    #expect(renewed.withLock { $0 } == "new 2")
    device.stop()
    try await server.stop()
  }

  /// Two edges, one of which goes away: the device is attached to the other before it leaves.
  @Test func movesToAnotherEdgeWithoutAMomentAlone() async throws {
    let leaving = try await LoopbackServer.start { frame in
      guard case .attach = frame.command else { return [] }
      return [
        .reply(id: frame.id, .attached(.sample)),
        .notice(Notice(kind: .goAway, message: "This edge goes away.")),
      ]
    }
    var info = AttachedInfo.sample
    info.session = "the other edge"
    let other = info
    let staying = try await LoopbackServer.start { frame in
      switch frame.command {
      case .attach: [.reply(id: frame.id, .attached(other))]
      case .place(let address, _):
        [
          .reply(
            id: frame.id,
            .call(
              CallState(call: address.call, callee: address.callee, phase: .placed, version: 1)))
        ]
      default: []
      }
    }
    let device = CallDevice(
      .init(
        edges: [leaving, staying].map { "ws://127.0.0.1:\($0.port)" }, token: "token",
        device: "d1"))
    device.start()
    var heard: [ClientEvent] = []
    for await event in device.events {
      heard.append(event)
      if case .attached(other, _) = event { break }
    }
    #expect(
      heard == [
        .attached(.sample, again: false),
        .notice(Notice(kind: .goAway, message: "This edge goes away.")),
        .attached(other, again: true),
      ])
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
    let device = CallDevice(
      .init(edges: ["ws://127.0.0.1:\(server.port)"], token: "token", device: "d1"))
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
    var kept = UserRules(onBusy: UserRules.Forward(users: ["desk"]))
    kept.changedAt = Timestamp(microseconds: 7000)
    let answer = kept
    let server = try await LoopbackServer.start { frame in
      switch frame.command {
      case .attach: [.reply(id: frame.id, .attached(.sample))]
      case .rules(.read): [.reply(id: frame.id, .rules(UserRules()))]
      case .rules(.write(let rules)):
        [
          .reply(
            id: frame.id,
            rules.onBusy == answer.onBusy ? .rules(answer) : .error(CallError(.invalidRules)))
        ]
      default: []
      }
    }
    let device = CallDevice(
      .init(edges: ["ws://127.0.0.1:\(server.port)"], token: "token", device: "d1"))
    device.start()
    #expect(try await device.rules() == UserRules())
    #expect(
      try await device.setRules(UserRules(onBusy: UserRules.Forward(users: ["desk"]))) == answer)
    await #expect(throws: CallError(.invalidRules)) {
      try await device.setRules(UserRules())
    }
    device.stop()
    try await server.stop()
  }

  @Test func registersWithWhatStands() async throws {
    let info = RegisteredInfo(
      device: "d1", expiresAt: Timestamp(microseconds: 5000), removed: ["old"],
      capabilities: [.missedNotice])
    let server = try await LoopbackServer.start { frame in
      switch frame.command {
      case .attach: [.reply(id: frame.id, .attached(.sample))]
      case .register(let request):
        [
          .reply(
            id: frame.id,
            request.capabilities == [.missedNotice]
              ? .registered(info) : .error(CallError(.unknownCapability))),
          .notice(Notice(kind: .tokenTaken, message: "Another device registered this token.")),
        ]
      case .unregister: [.reply(id: frame.id, .done)]
      default: []
      }
    }
    let device = CallDevice(
      .init(edges: ["ws://127.0.0.1:\(server.port)"], token: "token", device: "d1"))
    device.start()
    let request = RegistrationRequest(
      alertToken: PushToken(provider: .fcm, environment: "", topic: "p", token: "t"),
      capabilities: [.missedNotice])
    #expect(try await device.register(request) == info)
    try await device.unregister()
    await #expect(throws: CallError(.unknownCapability)) {
      try await device.register(RegistrationRequest())
    }
    for await event in device.events {
      guard case .notice(let notice) = event else { continue }
      #expect(notice.kind == .tokenTaken)
      break
    }
    device.stop()
    try await server.stop()
  }
}
