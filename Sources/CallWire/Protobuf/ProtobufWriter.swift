internal import CCallProto
internal import CProtobufC

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

/// Writes the C struct of a message as protobuf, in the bytes that protobuf-c writes.
///
/// It begins with the last byte. So the length of a message is known when it has to be written before the message,
/// and nothing is measured in a pass of its own. The bytes grow downwards in what is left of the arena's chunk.
@safe
package struct ProtobufWriter {
  private typealias Field = WireLayout.Field

  /// More than a tag and a number take.
  private static let numberBytesMax = 16

  private let arena: Arena
  private var start: UnsafeMutableRawPointer
  /// The first byte that is written.
  private var next: UnsafeMutableRawPointer
  private var end: UnsafeMutableRawPointer
  private var count: Int { unsafe end - next }

  private init(_ arena: Arena) {
    let room = arena.rest(atLeast: Self.numberBytesMax)
    self.arena = arena
    unsafe start = unsafe room.lowerBound
    unsafe end = unsafe room.upperBound
    unsafe next = unsafe end
  }

  /// - Parameter message: a message of that layout, in the arena.
  @safe
  static func withBytes<Result>(
    _ message: UnsafeRawPointer, _ layout: WireLayout, _ arena: Arena,
    _ body: (UnsafeRawBufferPointer) -> Result
  ) -> Result {
    var writer = ProtobufWriter(arena)
    unsafe writer.write(message, layout)
    return unsafe body(UnsafeRawBufferPointer(start: writer.next, count: writer.count))
  }

  /// - Parameter message: a message of that layout, in the arena.
  @safe
  static func bytes(_ message: UnsafeRawPointer, _ layout: WireLayout, _ arena: Arena) -> [UInt8] {
    withBytes(message, layout, arena) { unsafe [UInt8]($0) }
  }

  /// For tests, which compare this with what protobuf-c writes.
  package static func bytes(of message: UnsafeRawPointer) -> [UInt8] {
    Arena.withArena { arena in unsafe bytes(message, WireLayout(of: message), arena) }
  }

  private mutating func write(_ message: UnsafeRawPointer, _ layout: WireLayout) {
    var index = unsafe layout.fields.count
    while index > 0 {
      index -= 1
      let field = unsafe layout.fields.baseAddress.unsafelyUnwrapped + index
      if unsafe field.pointee.presence == .member {
        let set = unsafe (message + field.pointee.quantifierOffset).load(as: UInt32.self)
        if unsafe set != field.pointee.number {
          // Only the member that is set needs a look, among those before this one.
          let place = layout.place(set)
          index = unsafe place > index ? field.pointee.first : max(field.pointee.first, place)
          continue
        }
      }
      unsafe write(field, of: message)
    }
  }

  @inline(__always)
  private mutating func write(_ field: UnsafePointer<Field>, of message: UnsafeRawPointer) {
    let place = unsafe message + field.pointee.offset
    let quantifier = unsafe message + field.pointee.quantifierOffset
    switch unsafe field.pointee.presence {
    case .word32: guard unsafe place.load(as: UInt32.self) != 0 else { return }
    case .word64: guard unsafe place.load(as: UInt64.self) != 0 else { return }
    case .text:
      guard let text = unsafe place.load(as: UnsafePointer<UInt8>?.self), unsafe text[0] != 0 else {
        return
      }
    case .member: break
    case .repeated, .packed:
      return unsafe write(field, elements: quantifier.load(as: Int.self), place)
    }
    unsafe write(field, value: place)
    unsafe write(tagOf: field)
  }

  private mutating func write(
    _ field: UnsafePointer<Field>, elements count: Int, _ place: UnsafeRawPointer
  ) {
    guard count > 0 else { return }
    let elements = unsafe place.load(as: UnsafeRawPointer.self)
    let (isPacked, before) = unsafe (field.pointee.presence == .packed, self.count)
    for index in (0..<count).reversed() {
      unsafe write(field, value: elements + index * field.pointee.stride)
      if !isPacked { unsafe write(tagOf: field) }
    }
    guard isPacked else { return }
    varint(UInt64(self.count - before))
    unsafe write(tagOf: field)
  }

  /// Room for it is reserved with the value.
  @inline(__always)
  private mutating func write(tagOf field: UnsafePointer<Field>) {
    unsafe (next - 2).storeBytes(of: field.pointee.tag, as: UInt16.self)
    unsafe next -= Int(field.pointee.tagBytes)
  }

  @inline(__always)
  private mutating func write(_ field: UnsafePointer<Field>, value place: UnsafeRawPointer) {
    switch unsafe field.pointee.kind {
    case .flag: unsafe varint(place.load(as: protobuf_c_boolean.self) == 0 ? 0 : 1)
    // A negative one has ten bytes.
    case .enumeration: unsafe varint(UInt64(bitPattern: Int64(place.load(as: Int32.self))))
    case .uint32: unsafe varint(UInt64(place.load(as: UInt32.self)))
    case .varint64: unsafe varint(place.load(as: UInt64.self))
    case .fixed32: unsafe fixed(place.load(as: UInt32.self).littleEndian)
    case .fixed64: unsafe fixed(place.load(as: UInt64.self).littleEndian)
    case .text:
      let text = unsafe place.load(as: UnsafePointer<CChar>.self)
      unsafe copy(text, strlen(text))
    case .bytes:
      let bytes = unsafe place.load(as: ProtobufCBinaryData.self)
      unsafe copy(bytes.data, bytes.len)
    case .message:
      let before = count
      // Code that names a member of a oneof sets it.
      unsafe write(
        place.load(as: UnsafeRawPointer.self), field.pointee.message.unsafelyUnwrapped)
      varint(UInt64(count - before))
    }
  }

  // MARK: Bytes

  @inline(__always)
  private mutating func reserve(_ bytes: Int) {
    if unsafe next - start < bytes { grow(bytes) }
  }

  @inline(never)
  private mutating func grow(_ bytes: Int) {
    let written = count
    let room = arena.rest(atLeast: written + bytes)
    unsafe start = unsafe room.lowerBound
    unsafe end = unsafe room.upperBound
    unsafe (end - written).copyMemory(from: next, byteCount: written)
    unsafe next = unsafe end - written
  }

  @inline(__always)
  private mutating func varint(_ value: UInt64) {
    reserve(Self.numberBytesMax)
    if value < 0x80 {
      unsafe next -= 1
      return unsafe next.storeBytes(of: UInt8(truncatingIfNeeded: value), as: UInt8.self)
    }
    // Seven bits a byte.
    let bytes = (70 - value.leadingZeroBitCount) / 7
    unsafe next -= bytes
    var (rest, place) = unsafe (value, next)
    while rest >= 0x80 {
      unsafe place.storeBytes(of: UInt8(truncatingIfNeeded: rest) | 0x80, as: UInt8.self)
      rest >>= 7
      unsafe place += 1
    }
    unsafe place.storeBytes(of: UInt8(truncatingIfNeeded: rest), as: UInt8.self)
  }

  @inline(__always)
  private mutating func fixed<Number: FixedWidthInteger>(_ value: Number) {
    reserve(Self.numberBytesMax)
    unsafe next -= MemoryLayout<Number>.size
    unsafe next.storeBytes(of: value, as: Number.self)
  }

  private mutating func copy(_ bytes: UnsafeRawPointer?, _ count: Int) {
    reserve(count + Self.numberBytesMax)
    unsafe next -= count
    if let bytes = unsafe bytes { unsafe next.copyMemory(from: bytes, byteCount: count) }
    varint(UInt64(count))
  }
}
