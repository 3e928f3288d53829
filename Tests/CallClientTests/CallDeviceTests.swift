import CallClient
import CallCore
import CallWire
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
      case .cancel: return [.reply(id: frame.id, .error(CallError(.unknownCall)))]
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
}
