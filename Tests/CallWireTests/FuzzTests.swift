import CallCore
import CallWire
import Testing

/// Bytes of strangers never trap. What cannot be read gives an error with a stable code.
@Suite struct FuzzTests {
  static let rounds = 20_000
  /// The codes with which a frame may be refused, whatever its bytes.
  static let codes: Set<CallError.Code> = [
    .malformedFrame, .frameTooLarge, .unknownCommand, .invalidField, .invalidDevice,
    .invalidPushToken, .unknownDialect, .unknownCapability, .invalidCallee, .headersTooLarge,
    .descriptionTooLarge, .informationTooLarge, .pushDataTooLarge, .notAccepted, .invalidRules,
  ]

  enum Damage: CaseIterable {
    case noise, flippedBits
    /// Lengths and field numbers out of one frame put into another.
    case splice

    fileprivate func bytes(_ codec: DeviceCodec, by generator: inout Generator) -> [UInt8] {
      switch self {
      case .noise: return generator.list(200) { UInt8(truncatingIfNeeded: $0.next()) }
      case .flippedBits:
        var bytes =
          generator.chance(50)
          ? codec.encode(generator.clientFrame()) : codec.encode(generator.serverFrame())
        for _ in 0...Int.random(in: 0...3, using: &generator) {
          let position = Int.random(in: 0..<bytes.count, using: &generator)
          bytes[position] ^= 1 << UInt8.random(in: 0...7, using: &generator)
        }
        return bytes
      case .splice:
        let a = codec.encode(generator.clientFrame())
        let b = codec.encode(generator.serverFrame())
        let head = a.prefix(Int.random(in: 0...a.count, using: &generator))
        return Array(head + b.suffix(Int.random(in: 0...b.count, using: &generator)))
      }
    }
  }

  @Test(arguments: DeviceCodec.allCases, Damage.allCases)
  func damagedFrames(codec: DeviceCodec, damage: Damage) throws {
    var generator = Generator(seed: 11)
    for _ in 0..<Self.rounds { try tryAll(damage.bytes(codec, by: &generator), codec) }
  }

  @Test(arguments: DeviceCodec.allCases) func everyTruncation(codec: DeviceCodec) throws {
    var generator = Generator(seed: 12)
    for kind in 0..<max(Generator.clientKinds, Generator.serverKinds) {
      for bytes in [
        codec.encode(generator.clientFrame(kind % Generator.clientKinds)),
        codec.encode(generator.serverFrame(kind % Generator.serverKinds)),
      ] {
        for count in 0..<min(bytes.count, 400) { try tryAll(Array(bytes[..<count]), codec) }
      }
    }
  }

  /// A frame of few bytes must not cost much memory: empty messages in a repeated field.
  @Test func manyEmptyMessagesAreRefused() throws {
    var bytes: [UInt8] = []
    for _ in 0..<60_000 { bytes += [0x0a, 0x00] }  // items, length 0
    let frame = [0x08, 0x07, 0x3a] + Self.varint(bytes.count) + bytes
    let error = DeviceCodec.protobuf.refusal(frame)
    #expect(error?.id == 7)
    #expect(error?.code == .malformedFrame || error?.code == .invalidField)
  }

  @Test(arguments: ["[", #"{"a":"#, #"{"place":{"call":"#, "[{\"id\":"])
  func deepNesting(opening: String) {
    for depth in [32, 33, 511, 512, 513, 5_000] {
      let bytes = Array(String(repeating: opening, count: depth).utf8)
      let error = DeviceCodec.json.refusal(bytes)
      #expect(error?.code == .malformedFrame)
    }
    // Well-formed, and deep in a field that nobody knows.
    let deep =
      #"{"id":5,"detach":{},"x":"# + String(repeating: "[", count: 20_000)
      + String(repeating: "]", count: 20_000) + "}"
    _ = try? DeviceCodec.json.decodeClient(Array(deep.utf8))
  }

  @Test(arguments: [
    "1e400", "-1e400", "1e308", "18446744073709551616", "9007199254740992", "-1", "1.5",
    "1e1000000",
    "0x10", "NaN", "00", "99999999999999999999999999999999999999999999", "true", "\"7\"", "null",
    "{}", "[]",
  ]) func hugeAndOddNumbersAsID(number: String) {
    let bytes = Array(#"{"id":\#(number),"detach":{}}"#.utf8)
    let error = DeviceCodec.json.refusal(bytes)
    #expect(error?.code == .malformedFrame || error?.code == .invalidField)
  }

  @Test(arguments: ["1e400", "4294967296", "-1", "1.5", "\"30\"", "99999999999999999999"])
  func hugeAndOddNumbersAsTimeout(number: String) {
    let frame =
      #"{"id":3,"place":{"call":{"callee":"bob","id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"},"#
      + #""ringTimeoutSeconds":\#(number)}}"#
    let error = DeviceCodec.json.refusal(Array(frame.utf8))
    // Where the text is JSON, the frame's own number is known.
    #expect(error?.code == .malformedFrame || error?.code == .invalidField)
    if error?.code == .invalidField { #expect(error?.id == 3) }
  }

  private func tryAll(_ bytes: [UInt8], _ codec: DeviceCodec) throws {
    var read: ClientFrame?
    do throws(FrameError) {
      read = try codec.decodeClient(bytes)
    } catch {
      try #require(Self.codes.contains(error.error.code), "\(error)")
    }
    // A frame that was read means the same when it is encoded again.
    if let read { try #require(try codec.decodeClient(codec.encode(read)) == read) }
    do throws(FrameError) {
      let frame = try codec.decodeServer(bytes)
      _ = codec.encode(frame)
    } catch {
      try #require(Self.codes.contains(error.error.code), "\(error)")
    }
  }

  static func varint(_ value: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    var rest = UInt64(value)
    while rest >= 0x80 {
      bytes.append(UInt8(rest & 0x7f) | 0x80)
      rest >>= 7
    }
    return bytes + [UInt8(rest)]
  }
}
