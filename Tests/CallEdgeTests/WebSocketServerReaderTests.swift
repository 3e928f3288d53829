import CallEdge
import Testing

/// A frame as a client sends it.
func clientFrame(
  _ opcode: UInt8, _ payload: [UInt8], final: Bool = true, masked: Bool = true,
  reserved: UInt8 = 0
) -> [UInt8] {
  var out: [UInt8] = [(final ? 0x80 : 0) | reserved | opcode]
  let mask: [UInt8] = [0x12, 0x34, 0x56, 0x78]
  let bit: UInt8 = masked ? 0x80 : 0
  switch payload.count {
  case ..<126: out.append(bit | UInt8(payload.count))
  case ..<65_536: out += [bit | 126, UInt8(payload.count >> 8), UInt8(payload.count & 255)]
  default:
    out.append(bit | 127)
    out += (0..<8).map { UInt8(truncatingIfNeeded: payload.count >> (56 - 8 * $0)) }
  }
  if masked { out += mask }
  out += payload.enumerated().map { masked ? $1 ^ mask[$0 & 3] : $1 }
  return out
}

/// The events that a reader makes of bytes, in words.
private func read(
  _ pieces: [[UInt8]], max: Int = 1000, skipped: Int = 10_000, fragments: Int = .max,
  beginning: Int = 0
) -> [String] {
  var reader = WebSocketServerReader(
    messageBytesMax: max, skippedBytesMax: skipped, fragmentsMax: fragments,
    beginningBytesMax: beginning)
  let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: max + 16, alignment: 16)
  defer { scratch.deallocate() }
  var out: [String] = []
  var rest: [UInt8] = []
  for piece in pieces {
    rest += piece
    var consumed = 0
    rest.withUnsafeBytes { bytes in
      loop: while true {
        switch reader.next(bytes, consumed: &consumed, scratch: scratch) {
        case .needMore: break loop
        case .nothing, .pong: continue
        case .message(let kind, let payload):
          out.append("\(kind) \(String(decoding: payload, as: UTF8.self))")
        case .ping(let payload): out.append("ping \(String(decoding: payload, as: UTF8.self))")
        case .close(let code): out.append("close \(code.map(String.init) ?? "-")")
        case .tooLarge(let beginning):
          let text = String(decoding: beginning, as: UTF8.self)
          out.append(text.isEmpty ? "too large" : "too large \(text)")
        case .violation(let reason):
          out.append("violation \(reason)")
          consumed = bytes.count
          break loop
        }
      }
    }
    rest.removeFirst(consumed)
  }
  return out
}

@Suite struct WebSocketServerReaderTests {
  private let stream =
    clientFrame(1, Array("hello".utf8)) + clientFrame(9, Array("p".utf8))
    + clientFrame(1, Array("one ".utf8), final: false) + clientFrame(10, [])
    + clientFrame(0, Array("two ".utf8), final: false) + clientFrame(9, [])
    + clientFrame(0, Array("three".utf8)) + clientFrame(2, []) + clientFrame(8, [0x03, 0xe8])
  private let meaning = [
    "text hello", "ping p", "ping ", "text one two three", "binary ", "close 1000",
  ]

  /// Empty ones would never come to an end; nor those of a message that is skipped.
  @Test(arguments: [0, 2000]) func fragmentsAreCounted(first: Int) {
    let begun = clientFrame(2, [UInt8](repeating: 65, count: first), final: false)
    let empty = clientFrame(0, [], final: false)
    let whole = [begun] + Array(repeating: empty, count: 8) + [clientFrame(0, [])]
    let message = read(whole, fragments: 10)
    #expect(message == [first == 0 ? "binary " : "too large"])
    let further = [begun] + Array(repeating: empty, count: 9) + [clientFrame(0, [])]
    #expect(read(further, fragments: 10).last == "violation messageTooLarge")
    // Each message has its own; control frames between them do not count.
    #expect(read(whole + [clientFrame(9, [])] + whole, fragments: 10).count == 3)
  }

  @Test func readsFramesHoweverTheyAreCut() {
    #expect(read([stream]) == meaning)
    #expect(read(stream.map { [$0] }) == meaning)
    for cut in 1..<stream.count {
      #expect(read([Array(stream[..<cut]), Array(stream[cut...])]) == meaning)
    }
  }

  @Test(arguments: [0, 1, 7, 8, 9, 125, 126, 127, 900, 1000, 100_000])
  func lengthsOfAllForms(count: Int) {
    let text = String((0..<count).map { Character(Unicode.Scalar(UInt8(97 + $0 % 26))) })
    let max = count > 1000 ? 131_072 : 1000
    #expect(read([clientFrame(1, Array(text.utf8))], max: max) == ["text \(text)"])
  }

  @Test func largeMessagesAreSkippedAndTheNextIsRead() {
    let part = [UInt8](repeating: 65, count: 600)
    let whole = clientFrame(1, [UInt8](repeating: 65, count: 1001))
    let fragmented =
      clientFrame(1, part, final: false) + clientFrame(0, part, final: false)
      + clientFrame(9, Array("p".utf8)) + clientFrame(0, part)
    for (large, meaning) in [(whole, []), (fragmented, ["ping p"])] {
      let stream = large + clientFrame(1, Array("ok".utf8))
      #expect(read([stream]) == ["too large"] + meaning + ["text ok"])
      #expect(read(stream.map { [$0] }) == ["too large"] + meaning + ["text ok"])
    }
  }

  @Test func theBeginningOfALargeMessageIsHandedOver() {
    let text = (0..<1500).map { UInt8(97 + $0 % 26) }
    let beginning = String(decoding: text[..<20], as: UTF8.self)
    let next = clientFrame(1, Array("ok".utf8))
    let messages = [
      clientFrame(1, text),
      clientFrame(1, Array(text[..<7]), final: false) + clientFrame(0, Array(text[7...])),
      clientFrame(1, Array(text[..<900]), final: false) + clientFrame(0, Array(text[900...])),
    ]
    for stream in messages.map({ $0 + next }) {
      for pieces in [[stream], stream.map { [$0] }] {
        #expect(read(pieces, beginning: 20) == ["too large \(beginning)", "text ok"])
      }
    }
  }

  @Test func whatIsTooLargeToSkipEndsTheConnection() {
    #expect(
      read([clientFrame(1, [UInt8](repeating: 65, count: 10_001))])
        == ["violation messageTooLarge"])
    let part = [UInt8](repeating: 65, count: 4000)
    let stream =
      clientFrame(1, part, final: false) + clientFrame(0, part, final: false)
      + clientFrame(0, part, final: false)
    #expect(read([stream]) == ["too large", "violation messageTooLarge"])
    // A length of 2^63 and more.
    #expect(
      read([[0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4]])
        == ["violation protocolError"])
  }

  @Test(arguments: [
    clientFrame(1, [65], masked: false), clientFrame(1, [65], reserved: 0x40),
    clientFrame(3, [65]), clientFrame(11, []), clientFrame(0, [65]),
    clientFrame(9, [], final: false), clientFrame(9, [UInt8](repeating: 1, count: 126)),
    clientFrame(8, [3]), clientFrame(1, [65], final: false) + clientFrame(1, [65]),
  ])
  func brokenProtocolIsNoticed(stream: [UInt8]) {
    #expect(read([stream]) == ["violation protocolError"])
    #expect(read(stream.map { [$0] }).first == "violation protocolError")
  }
}
