import CallCore
import CallWire
import Testing

/// A client of this version meets additions that later versions of the protocol make.
@Suite struct LaterVersionTests {
  private static let call = #""call":{"callee":"bob","id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"}"#

  private func delivery(_ event: String) throws -> Delivery.Event {
    let text = #"{"delivery":{\#(Self.call),"version":7,\#(event)}}"#
    guard case .delivery(let delivery) = try DeviceCodec.json.decodeServer(Array(text.utf8)) else {
      throw Unexpected()
    }
    #expect(delivery.version == 7)
    return delivery.event
  }

  /// It is acknowledged like any other, and no signal has the index 0.
  @Test func aDeliveryOfAnotherKindChangesNothing() throws {
    let nothing = Delivery.Event.signal(Signal(index: 0, kind: .unknown, body: ""))
    #expect(try delivery(#""applause":{"by":{}}"#) == nothing)
  }

  @Test func aCallEndsForAnyReason() throws {
    let stop = try delivery(#""stop":{"reason":"eclipsed","unreachable":"moonless"}"#)
    #expect(stop == .stop(Stop(reason: .failed)))
    let text = #"{"reply":{"id":1,"call":{\#(Self.call),"phase":"ended","reason":"eclipsed"}}}"#
    guard
      case .reply(1, .call(let state)) = try DeviceCodec.json.decodeServer(Array(text.utf8))
    else { throw Unexpected() }
    #expect(state.reason == .failed)
  }

  @Test func aTransferFailsForAnyReason() throws {
    let news = try delivery(#""transfer":{"to":"carl","number":1,"reason":"eclipsed"}"#)
    #expect(news == .transfer(TransferNews(to: "carl", number: 1, reason: .failed)))
  }

  /// A connection drops such a frame, and reads on.
  @Test(arguments: DeviceCodec.allCases) func aFrameOfAnotherKindIsRefusedAsSuch(
    codec: DeviceCodec
  ) {
    // In protobuf: the field 200, empty.
    let bytes: [UInt8] = codec == .json ? Array(#"{"weather":{}}"#.utf8) : [0xc2, 0x0c, 0x00]
    #expect(throws: FrameError(id: 0, error: CallError(.unknownCommand))) {
      try codec.decodeServer(bytes)
    }
  }
}
