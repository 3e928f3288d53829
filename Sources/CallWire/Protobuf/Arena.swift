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
/// Every piece is preceded by its size. That is how the length of a string is known which
/// protobuf-c hands over as a bare pointer, also where the string holds a NUL.
struct Arena {
  private struct State {
    /// The newest chunk; its first word points to the one before.
    var chunk: UnsafeMutableRawPointer
    var used: Int
    var capacity: Int
    /// Bytes asked of `malloc` beyond the first chunk, and how many may be.
    var overflow: Int
    var overflowLimit: Int
    var allocator: ProtobufCAllocator
  }

  private static let firstChunkBytes = 64 * 1024
  private static let chunkHeaderBytes = 16
  private static let pieceHeaderBytes = 8

  private let state: UnsafeMutablePointer<State>

  // MARK: Life

  /// Runs `body` with this thread's arena and takes back what it allocated. May be nested.
  /// - Parameter overflowLimit: how many bytes beyond the first 64 kB it may take; further
  ///   allocations through `allocator` fail, which protobuf-c reports as a message it cannot read.
  static func withArena<Value, Failure: Error>(
    overflowLimit: Int = .max, _ body: (Arena) throws(Failure) -> Value
  ) throws(Failure) -> Value {
    let arena = ofThread()
    let mark = arena.state.pointee
    arena.state.pointee.overflowLimit = overflowLimit
    defer { arena.rewind(to: mark) }
    return try body(arena)
  }

  private static func ofThread() -> Arena {
    if let known = pthread_getspecific(threadKey) {
      return Arena(state: known.assumingMemoryBound(to: State.self))
    }
    let arena = Arena()
    pthread_setspecific(threadKey, UnsafeMutableRawPointer(arena.state))
    return arena
  }

  private static let threadKey: pthread_key_t = {
    var key = pthread_key_t()
    let failure = pthread_key_create(&key) { Arena.destroy($0) }
    precondition(failure == 0, "no thread-specific key left")
    return key
  }()

  private static func destroy(_ pointer: UnsafeMutableRawPointer?) {
    guard let state = pointer?.assumingMemoryBound(to: State.self) else { return }
    free(state.pointee.chunk)
    state.deallocate()
  }

  private init(state: UnsafeMutablePointer<State>) { self.state = state }

  private init() {
    state = .allocate(capacity: 1)
    let allocator = ProtobufCAllocator(
      alloc: { state, size in
        guard let state else { return nil }
        return Arena(state: state.assumingMemoryBound(to: State.self)).allocate(size)
      },
      free: { _, _ in },
      allocator_data: UnsafeMutableRawPointer(state))
    state.initialize(
      to: State(
        chunk: Self.chunk(Self.firstChunkBytes, before: nil), used: Self.chunkHeaderBytes,
        capacity: Self.firstChunkBytes, overflow: 0, overflowLimit: .max, allocator: allocator))
  }

  private func rewind(to mark: State) {
    while state.pointee.chunk != mark.chunk {
      let before = state.pointee.chunk.load(as: UnsafeMutableRawPointer?.self)
      free(state.pointee.chunk)
      // The chunk of the mark is older than every other here, so it comes in the end.
      state.pointee.chunk = before.unsafelyUnwrapped
    }
    state.pointee = mark
  }

  private static func chunk(
    _ bytes: Int, before: UnsafeMutableRawPointer?
  ) -> UnsafeMutableRawPointer {
    guard let chunk = malloc(bytes) else { fatalError("out of memory: \(bytes) bytes") }
    chunk.storeBytes(of: before, as: UnsafeMutableRawPointer?.self)
    return chunk
  }

  // MARK: Allocation

  /// For protobuf-c's unpack functions.
  var allocator: UnsafeMutablePointer<ProtobufCAllocator> {
    UnsafeMutableRawPointer(state).advanced(by: MemoryLayout<State>.offset(of: \.allocator)!)
      .assumingMemoryBound(to: ProtobufCAllocator.self)
  }

  /// nil where the limit is reached; only for input of strangers.
  @inline(__always)
  func allocate(_ size: Int) -> UnsafeMutableRawPointer? {
    let needed = Self.pieceHeaderBytes + ((size + 7) & ~7)
    if state.pointee.capacity - state.pointee.used < needed {
      guard grow(needed) else { return nil }
    }
    let piece = state.pointee.chunk + state.pointee.used
    state.pointee.used += needed
    piece.storeBytes(of: size, as: Int.self)
    return piece + Self.pieceHeaderBytes
  }

  @inline(never)
  private func grow(_ needed: Int) -> Bool {
    let bytes = max(needed + Self.chunkHeaderBytes, 2 * state.pointee.capacity)
    guard bytes <= state.pointee.overflowLimit - state.pointee.overflow else { return false }
    state.pointee.chunk = Self.chunk(bytes, before: state.pointee.chunk)
    state.pointee.used = Self.chunkHeaderBytes
    state.pointee.capacity = bytes
    state.pointee.overflow += bytes
    return true
  }

  private func take(_ size: Int) -> UnsafeMutableRawPointer {
    // Only writing comes here, and writing has no limit.
    allocate(size).unsafelyUnwrapped
  }

  /// A struct, set up by its generated `init` function.
  @inline(__always)
  func make<Message>(
    _ initialize: (UnsafeMutablePointer<Message>?) -> Void
  ) -> UnsafeMutablePointer<Message> {
    let message = take(MemoryLayout<Message>.size).assumingMemoryBound(to: Message.self)
    initialize(message)
    return message
  }

  /// Room for the pointers of a repeated field.
  func pointers<Element>(_: Element.Type, count: Int) -> UnsafeMutablePointer<Element> {
    take(count * MemoryLayout<Element>.stride).assumingMemoryBound(to: Element.self)
  }

  func bytes(_ count: Int) -> UnsafeMutablePointer<UInt8> {
    take(count).assumingMemoryBound(to: UInt8.self)
  }

  /// The text of a field that protobuf-c describes as a C string, also with a NUL in it.
  static func text(_ field: UnsafePointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
    if field[0] == 0 && UInt(bitPattern: field) == unset {
      return UnsafeBufferPointer(start: field, count: 0)
    }
    let size = (UnsafeRawPointer(field) - pieceHeaderBytes).load(as: Int.self)
    return UnsafeBufferPointer(start: field, count: size - 1)
  }

  /// The address to which texts point that nobody set: no piece of an arena.
  private static let unset: UInt = {
    var header = Callmesh__V1__Header()
    callmesh__v1__header__init(&header)
    return UInt(bitPattern: header.name)
  }()
}
