internal import CCallProto
internal import CProtobufC

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

/// Memory for the C structs of one message: taken piece by piece, given back all at once.
///
/// Each thread keeps one, with its first chunk, so that reading or writing a small message calls no
/// `malloc` but those of the Swift values themselves. An arena never crosses a suspension: `withArena`
/// takes a synchronous closure.
///
/// Every piece is preceded by its size. That is how the length of a string is known which the C struct
/// has as a bare pointer, also where the string holds a NUL.
@safe
struct Arena {
  @safe
  private struct State {
    /// The newest chunk; its first word points to the one before.
    var chunk: UnsafeMutableRawPointer
    var used: Int
    var capacity: Int
    /// Bytes asked of `malloc` beyond the first chunk, and how many may be.
    var overflow: Int
    var overflowLimit: Int
  }

  private static let firstChunkBytes = 64 * 1024
  private static let chunkHeaderBytes = 16
  private static let pieceHeaderBytes = 8

  private let state: UnsafeMutablePointer<State>

  // MARK: Life

  /// Runs `body` with this thread's arena and takes back what it allocated. May be nested.
  /// - Parameter overflowLimit: how many bytes beyond the first 64 kB it may take; further
  ///   `allocate` returns nil then, and what needed it is a message that cannot be read.
  static func withArena<Value, Failure: Error>(
    overflowLimit: Int = .max, _ body: (Arena) throws(Failure) -> Value
  ) throws(Failure) -> Value {
    let arena = ofThread()
    let mark = unsafe arena.state.pointee
    unsafe arena.state.pointee.overflowLimit = overflowLimit
    defer { arena.rewind(to: mark) }
    return try body(arena)
  }

  private static func ofThread() -> Arena {
    if let known = unsafe pthread_getspecific(threadKey) {
      return unsafe Arena(state: known.assumingMemoryBound(to: State.self))
    }
    let arena = Arena()
    unsafe pthread_setspecific(threadKey, UnsafeMutableRawPointer(arena.state))
    return arena
  }

  private static let threadKey: pthread_key_t = {
    var key = pthread_key_t()
    let failure = unsafe pthread_key_create(&key) { unsafe Arena.destroy($0) }
    precondition(failure == 0, "no thread-specific key left")
    return key
  }()

  private static func destroy(_ pointer: UnsafeMutableRawPointer?) {
    guard let state = unsafe pointer?.assumingMemoryBound(to: State.self) else { return }
    unsafe free(state.pointee.chunk)
    unsafe state.deallocate()
  }

  private init(state: UnsafeMutablePointer<State>) { unsafe self.state = unsafe state }

  private init() {
    unsafe state = .allocate(capacity: 1)
    unsafe state.initialize(
      to: State(
        chunk: Self.chunk(Self.firstChunkBytes, before: nil), used: Self.chunkHeaderBytes,
        capacity: Self.firstChunkBytes, overflow: 0, overflowLimit: .max))
  }

  private func rewind(to mark: State) {
    while unsafe state.pointee.chunk != mark.chunk {
      let before = unsafe state.pointee.chunk.load(as: UnsafeMutableRawPointer?.self)
      unsafe free(state.pointee.chunk)
      // The chunk of the mark is older than every other here, so it comes in the end.
      unsafe state.pointee.chunk = unsafe before.unsafelyUnwrapped
    }
    unsafe state.pointee = mark
  }

  private static func chunk(_ bytes: Int, before: UnsafeMutableRawPointer?)
    -> UnsafeMutableRawPointer
  {
    guard let chunk = unsafe malloc(bytes) else { fatalError("out of memory: \(bytes) bytes") }
    unsafe chunk.storeBytes(of: before, as: UnsafeMutableRawPointer?.self)
    return unsafe chunk
  }

  // MARK: Allocation

  /// nil where the limit is reached; only for input of strangers.
  @inline(__always)
  func allocate(_ size: Int) -> UnsafeMutableRawPointer? {
    let needed = Self.pieceHeaderBytes + ((size + 7) & ~7)
    if unsafe state.pointee.capacity - state.pointee.used < needed {
      guard grow(needed) else { return nil }
    }
    let piece = unsafe state.pointee.chunk + state.pointee.used
    unsafe state.pointee.used += needed
    unsafe piece.storeBytes(of: size, as: Int.self)
    return unsafe piece + Self.pieceHeaderBytes
  }

  @inline(never)
  private func grow(_ needed: Int) -> Bool {
    let bytes = unsafe max(needed + Self.chunkHeaderBytes, 2 * state.pointee.capacity)
    guard unsafe bytes <= state.pointee.overflowLimit - state.pointee.overflow else { return false }
    unsafe state.pointee.chunk = unsafe Self.chunk(bytes, before: state.pointee.chunk)
    unsafe state.pointee.used = Self.chunkHeaderBytes
    unsafe state.pointee.capacity = bytes
    unsafe state.pointee.overflow += bytes
    return true
  }

  private func allocateToWrite(_ size: Int) -> UnsafeMutableRawPointer {
    // Only writing comes here, and writing has no limit.
    unsafe allocate(size).unsafelyUnwrapped
  }

  /// A struct, set up by its generated `init` function.
  @inline(__always)
  func make<Message>(_ initialize: (UnsafeMutablePointer<Message>?) -> Void)
    -> UnsafeMutablePointer<Message>
  {
    let message = unsafe allocateToWrite(MemoryLayout<Message>.size).assumingMemoryBound(
      to: Message.self)
    unsafe initialize(message)
    return unsafe message
  }

  /// Room for the pointers of a repeated field.
  func pointers<Element>(_: Element.Type, count: Int) -> UnsafeMutablePointer<Element> {
    unsafe allocateToWrite(count * MemoryLayout<Element>.stride).assumingMemoryBound(
      to: Element.self)
  }

  func bytes(_ count: Int) -> UnsafeMutablePointer<UInt8> {
    unsafe allocateToWrite(count).assumingMemoryBound(to: UInt8.self)
  }

  /// The rest of the newest chunk, for bytes that are copied before anything else is allocated.
  @safe
  func rest(atLeast bytes: Int) -> Range<UnsafeMutableRawPointer> {
    if unsafe state.pointee.capacity - state.pointee.used < bytes {
      // Only writing comes here, and writing has no limit.
      precondition(grow(bytes))
    }
    let chunk = unsafe state.pointee.chunk
    return unsafe chunk + state.pointee.used..<chunk + state.pointee.capacity
  }

  /// The text of a field that protobuf-c describes as a C string, also with a NUL in it.
  static func text(_ field: UnsafePointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
    if unsafe field[0] == 0 && UInt(bitPattern: field) == unset {
      return unsafe UnsafeBufferPointer(start: field, count: 0)
    }
    return unsafe UnsafeBufferPointer(start: field, count: size(of: field) - 1)
  }

  @inline(__always)
  static func size(of piece: UnsafeRawPointer) -> Int {
    unsafe (piece - pieceHeaderBytes).load(as: Int.self)
  }

  /// The address to which unset texts point: no piece of an arena.
  private static let unset: UInt = {
    var header = Callmesh__V1__Header()
    callmesh__v1__header__init(&header)
    return UInt(bitPattern: header.name)
  }()
}
