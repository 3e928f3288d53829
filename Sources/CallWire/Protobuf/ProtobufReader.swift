internal import CCallProto
internal import CProtobufC

/// Reads protobuf into the C struct of a message, in the arena. It refuses what protobuf-c refuses, and a flag that is
/// no number.
///
/// Fields that the schema does not have are skipped. No message of the schemas holds itself, so none is nested deeper
/// than they say.
@safe
package struct ProtobufReader {
  private typealias Field = WireLayout.Field

  private let arena: Arena
  private var next: UnsafeRawPointer
  private var end: UnsafeRawPointer

  /// - Returns: nil for bytes that are no such message, or that take more memory than the arena gives. Fields of type
  ///   `bytes` point into `bytes`.
  static func message(_ bytes: UnsafeRawBufferPointer, _ layout: WireLayout, _ arena: Arena)
    -> UnsafeMutableRawPointer?
  {
    guard let message = unsafe layout.make(in: arena) else { return nil }
    guard let start = bytes.baseAddress else { return unsafe message }
    var reader = unsafe ProtobufReader(arena: arena, next: start, end: start + bytes.count)
    return unsafe reader.fill(message, layout) ? message : nil
  }

  /// For tests, which compare this with what protobuf-c reads.
  /// - Parameter message: any of the same kind.
  /// - Returns: the bytes of what was read.
  package static func rewritten(
    _ bytes: UnsafeRawBufferPointer, as message: UnsafeRawPointer
  ) -> [UInt8]? {
    Arena.withArena { arena in
      let layout = unsafe WireLayout(of: message)
      guard let read = unsafe Self.message(bytes, layout, arena) else { return nil }
      return ProtobufWriter.bytes(read, layout, arena)
    }
  }

  private mutating func fill(_ message: UnsafeMutableRawPointer, _ layout: WireLayout) -> Bool {
    while unsafe next < end {
      let first = unsafe next.load(as: UInt8.self)
      guard first & 0xf8 != 0, let long = varint(bytesMax: 5) else { return false }
      let key = UInt32(truncatingIfNeeded: long)
      let isRead =
        if let field = unsafe layout.field(key >> 3) {
          unsafe read(field, key & 7, into: message)
        } else { skip(key & 7) }
      guard isRead else { return false }
    }
    return true
  }

  private mutating func skip(_ form: UInt32) -> Bool {
    switch form {
    case 0: varint(bytesMax: 10) != nil
    case 1: unsafe takeBytes(8) != nil
    case 2: unsafe piece() != nil
    case 5: unsafe takeBytes(4) != nil
    default: false
    }
  }

  @inline(__always)
  private mutating func read(
    _ field: UnsafePointer<Field>, _ form: UInt32, into message: UnsafeMutableRawPointer
  ) -> Bool {
    let place = unsafe message + field.pointee.offset
    let quantifier = unsafe message + field.pointee.quantifierOffset
    switch unsafe field.pointee.presence {
    case .packed where form == 2: return unsafe readPacked(field, quantifier, place)
    case .packed, .repeated:
      guard let element = unsafe append(field, quantifier, place) else { return false }
      return unsafe read(field, form, value: element)
    case .member:
      unsafe quantifier.storeBytes(of: field.pointee.number, as: UInt32.self)
      unsafe place.storeBytes(of: 0, as: UInt64.self)
    default: break
    }
    return unsafe read(field, form, value: place)
  }

  private mutating func readPacked(
    _ field: UnsafePointer<Field>, _ quantifier: UnsafeMutableRawPointer,
    _ place: UnsafeMutableRawPointer
  ) -> Bool {
    guard let numbers = unsafe piece() else { return false }
    let end = unsafe self.end
    defer { unsafe self.end = unsafe end }
    unsafe self.end = unsafe next
    unsafe next -= numbers.count
    while unsafe next < self.end {
      guard let element = unsafe append(field, quantifier, place),
        unsafe read(field, field.pointee.form, value: element)
      else { return false }
    }
    return true
  }

  @inline(__always)
  private mutating func read(
    _ field: UnsafePointer<Field>, _ form: UInt32, value place: UnsafeMutableRawPointer
  ) -> Bool {
    guard unsafe form == field.pointee.form else { return false }
    switch unsafe field.pointee.kind {
    case .flag, .enumeration, .uint32, .varint64:
      guard let value = varint(bytesMax: 10) else { return false }
      let kind = unsafe field.pointee.kind
      if kind == .varint64 {
        unsafe place.storeBytes(of: value, as: UInt64.self)
      } else {
        let word = kind == .flag ? (value == 0 ? 0 : 1) : UInt32(truncatingIfNeeded: value)
        unsafe place.storeBytes(of: word, as: UInt32.self)
      }
    case .fixed32:
      guard let start = unsafe takeBytes(4) else { return false }
      let word = unsafe UInt32(littleEndian: start.loadUnaligned(as: UInt32.self))
      unsafe place.storeBytes(of: word, as: UInt32.self)
    case .fixed64:
      guard let start = unsafe takeBytes(8) else { return false }
      let word = unsafe UInt64(littleEndian: start.loadUnaligned(as: UInt64.self))
      unsafe place.storeBytes(of: word, as: UInt64.self)
    case .text:
      guard let text = unsafe piece(), let copy = unsafe arena.allocate(text.count + 1) else {
        return false
      }
      unsafe copy.copyMemory(from: text.baseAddress.unsafelyUnwrapped, byteCount: text.count)
      unsafe copy.storeBytes(of: 0, toByteOffset: text.count, as: UInt8.self)
      unsafe place.storeBytes(of: copy, as: UnsafeMutableRawPointer.self)
    case .bytes:
      guard let bytes = unsafe piece() else { return false }
      let start = unsafe bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
      unsafe place.storeBytes(
        of: ProtobufCBinaryData(len: bytes.count, data: UnsafeMutablePointer(mutating: start)),
        as: ProtobufCBinaryData.self)
    case .message: return unsafe readMessage(field.pointee.message.unsafelyUnwrapped, place)
    }
    return true
  }

  /// A message that comes twice, and is not one of several, is read into one struct, as the rules of protobuf say.
  private mutating func readMessage(_ layout: WireLayout, _ place: UnsafeMutableRawPointer) -> Bool
  {
    guard let bytes = unsafe piece(),
      let message = unsafe place.load(as: UnsafeMutableRawPointer?.self) ?? layout.make(in: arena)
    else { return false }
    unsafe place.storeBytes(of: message, as: UnsafeMutableRawPointer.self)
    var inner = unsafe ProtobufReader(arena: arena, next: next - bytes.count, end: next)
    return unsafe inner.fill(message, layout)
  }

  /// Room for one more element of a repeated field, which is 0.
  @inline(__always)
  private func append(
    _ field: UnsafePointer<Field>, _ count: UnsafeMutableRawPointer,
    _ place: UnsafeMutableRawPointer
  ) -> UnsafeMutableRawPointer? {
    let used = unsafe count.load(as: Int.self) * field.pointee.stride
    if unsafe used == 0 || used == Arena.size(of: place.load(as: UnsafeRawPointer.self)) {
      guard unsafe grow(place, used, field.pointee.stride) else { return nil }
    }
    unsafe count.storeBytes(of: count.load(as: Int.self) + 1, as: Int.self)
    let element = unsafe place.load(as: UnsafeMutableRawPointer.self) + used
    unsafe element.storeBytes(of: 0, as: UInt64.self)
    return unsafe element
  }

  private func grow(_ place: UnsafeMutableRawPointer, _ used: Int, _ stride: Int) -> Bool {
    guard let elements = unsafe arena.allocate(max(2 * used, 4 * stride)) else { return false }
    if used > 0 {
      unsafe elements.copyMemory(from: place.load(as: UnsafeRawPointer.self), byteCount: used)
    }
    unsafe place.storeBytes(of: elements, as: UnsafeMutableRawPointer.self)
    return true
  }

  // MARK: Bytes

  @inline(__always)
  private mutating func takeBytes(_ count: Int) -> UnsafeRawPointer? {
    guard unsafe end - next >= count else { return nil }
    unsafe next += count
    return unsafe next - count
  }

  /// Takes bytes that have their length before them.
  @inline(__always)
  private mutating func piece() -> UnsafeRawBufferPointer? {
    guard let count = varint(bytesMax: 5), count <= Int32.max,
      let start = unsafe takeBytes(Int(count))
    else { return nil }
    return unsafe UnsafeRawBufferPointer(start: start, count: Int(count))
  }

  @inline(__always)
  private mutating func varint(bytesMax: Int) -> UInt64? {
    guard unsafe next < end else { return nil }
    let first = unsafe next.load(as: UInt8.self)
    if first < 0x80 {
      unsafe next += 1
      return UInt64(first)
    }
    return longVarint(bytesMax: bytesMax)
  }

  private mutating func longVarint(bytesMax: Int) -> UInt64? {
    if unsafe end - next >= 8, let value = varintInWord(bytesMax: bytesMax) { return value }
    var value: UInt64 = 0
    for index in 0..<min(bytesMax, unsafe end - next) {
      let byte = unsafe next.load(fromByteOffset: index, as: UInt8.self)
      value |= UInt64(byte & 0x7f) &<< UInt64(7 * index)
      if byte < 0x80 {
        unsafe next += index + 1
        return value
      }
    }
    return nil
  }

  /// One of at most eight bytes, from eight bytes that are there. nil: it is longer.
  private mutating func varintInWord(bytesMax: Int) -> UInt64? {
    var word = unsafe UInt64(littleEndian: next.loadUnaligned(as: UInt64.self))
    let bytes = (~word & 0x8080_8080_8080_8080).trailingZeroBitCount / 8 + 1
    guard bytes <= min(bytesMax, 8) else { return nil }
    unsafe next += bytes
    word &= 0x7f7f_7f7f_7f7f_7f7f & UInt64.max >> UInt64(64 - 8 * bytes)
    // Seven bits of each byte, then fourteen of each two, then twenty-eight of each four move together.
    word = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1
    word = word & 0x0000_3fff_0000_3fff | (word & 0x3fff_0000_3fff_0000) >> 2
    return word & 0x0fff_ffff | (word & 0x0fff_ffff_0000_0000) >> 4
  }
}
