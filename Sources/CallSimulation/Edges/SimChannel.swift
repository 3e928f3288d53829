package import NIOCore

/// One end of a `SimSocket`, as a NIO channel.
package final class SimChannel: Channel, ChannelCore, @unchecked Sendable {
  let loop: SimEventLoop
  private let socket: SimSocket
  private let side: SimSocket.Side
  private var unflushed: ByteBuffer?
  private var promises: [EventLoopPromise<Void>] = []
  private let closePromise: EventLoopPromise<Void>
  private var _pipeline: ChannelPipeline!
  private var isOpen = true
  private var isOutputOpen = true
  package private(set) var isActive = false
  private var hasEnded = false

  package init(loop: SimEventLoop, socket: SimSocket, side: SimSocket.Side) {
    self.loop = loop
    self.socket = socket
    self.side = side
    closePromise = loop.makePromise()
    _pipeline = ChannelPipeline(channel: self)
    socket.attach(self, side)
    loop.node.world.onEnd { [weak self] in self?.endWithWorld() }
  }

  package func open() {
    isActive = true
    pipeline.syncOperations.fireChannelActive()
  }

  // MARK: Events of the socket

  func receive(_ bytes: ByteBuffer) {
    guard isOpen else { return }
    pipeline.syncOperations.fireChannelRead(NIOAny(bytes))
    pipeline.syncOperations.fireChannelReadComplete()
  }

  func peerClosed() {
    guard isOpen else { return }
    close0(error: ChannelError.eof, mode: .all, promise: nil)
  }

  // MARK: Channel

  package let allocator = ByteBufferAllocator()
  package var eventLoop: any EventLoop { loop }
  package var closeFuture: EventLoopFuture<Void> { closePromise.futureResult }
  package var pipeline: ChannelPipeline { _pipeline }
  package var localAddress: SocketAddress? { nil }
  package var remoteAddress: SocketAddress? { nil }
  package var parent: (any Channel)? { nil }
  package var isWritable: Bool { true }
  package var _channelCore: any ChannelCore { self }

  package func setOption<Option: ChannelOption>(
    _ option: Option, value: Option.Value
  ) -> EventLoopFuture<Void> {
    loop.makeSucceededVoidFuture()
  }

  package func getOption<Option: ChannelOption>(_ option: Option) -> EventLoopFuture<Option.Value> {
    loop.makeFailedFuture(ChannelError.operationUnsupported)
  }

  // MARK: ChannelCore

  package func localAddress0() throws -> SocketAddress { throw ChannelError.operationUnsupported }
  package func remoteAddress0() throws -> SocketAddress { throw ChannelError.operationUnsupported }
  package func register0(promise: EventLoopPromise<Void>?) { promise?.succeed(()) }
  package func registerAlreadyConfigured0(promise: EventLoopPromise<Void>?) {
    promise?.succeed(())
  }
  package func bind0(to: SocketAddress, promise: EventLoopPromise<Void>?) {
    promise?.fail(ChannelError.operationUnsupported)
  }
  package func connect0(to: SocketAddress, promise: EventLoopPromise<Void>?) {
    promise?.fail(ChannelError.operationUnsupported)
  }
  package func read0() {}
  package func channelRead0(_ data: NIOAny) {}
  package func errorCaught0(error: any Error) {}
  package func triggerUserOutboundEvent0(_ event: Any, promise: EventLoopPromise<Void>?) {
    promise?.fail(ChannelError.operationUnsupported)
  }

  package func write0(_ data: NIOAny, promise: EventLoopPromise<Void>?) {
    guard isOpen, isOutputOpen else {
      return promise?.fail(ChannelError.ioOnClosedChannel) ?? ()
    }
    guard case .byteBuffer(var bytes) = unwrapData(data, as: IOData.self) else {
      return promise?.fail(ChannelError.operationUnsupported) ?? ()
    }
    if unflushed == nil { unflushed = bytes } else { unflushed?.writeBuffer(&bytes) }
    if let promise { promises.append(promise) }
  }

  package func flush0() {
    if let bytes = unflushed.take(), bytes.readableBytes > 0 { socket.send(bytes, from: side) }
    let done = promises
    promises.removeAll()
    for promise in done { promise.succeed(()) }
  }

  package func close0(error: any Error, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    guard isOpen else { return promise?.fail(ChannelError.alreadyClosed) ?? () }
    if case .output = mode {
      flush0()
      if isOutputOpen { socket.ended(by: side) }
      isOutputOpen = false
      return promise?.succeed(()) ?? ()
    }
    isOpen = false
    isActive = false
    socket.closed(by: side)
    unflushed = nil
    let lost = promises
    promises.removeAll()
    for promise in lost { promise.fail(ChannelError.ioOnClosedChannel) }
    promise?.succeed(())
    pipeline.syncOperations.fireChannelInactive()
    pipeline.syncOperations.fireChannelUnregistered()
    loop.post { [self] in end() }
  }

  /// The sockets of a process that died stay open. An edge keeps a request that it has not answered, and with it
  /// the whole world, until its connection is gone.
  private func endWithWorld() {
    if isActive {
      isOpen = false
      isActive = false
      pipeline.syncOperations.fireChannelInactive()
    }
    end()
  }

  /// Releases its handlers and its socket, which retain it.
  private func end() {
    guard !hasEnded else { return }
    hasEnded = true
    removeHandlers(pipeline: pipeline)
    closePromise.succeed(())
    socket.detach(side)
  }
}
