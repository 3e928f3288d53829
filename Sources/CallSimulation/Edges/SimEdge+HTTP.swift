internal import CallClient
internal import CallCore
internal import NIOCore
internal import NIOHTTP1

extension SimEdge {
  /// Sends a request on a connection of its own.
  /// - Parameters:
  ///   - name: of the process that asks.
  ///   - completion: gets the response; nil: there was none.
  func perform(
    _ request: EdgeRequest, by name: String, seed: UInt64,
    completion: @escaping (EdgeResponse?) -> Void
  ) {
    let node = world.makeNode(name)
    let loop = SimEventLoop(node)
    let socket = SimSocket(
      world: world, random: SimRandom(seed: seed), latency: (.milliseconds(1), .milliseconds(40)))
    let channel = SimChannel(loop: loop, socket: socket, side: .device)
    let promise = loop.makePromise(of: EdgeResponse.self)
    promise.futureResult.assumeIsolated().whenComplete { completion(try? $0.get()) }
    do {
      try channel.pipeline.syncOperations.addHTTPClientHandlers()
      try channel.pipeline.syncOperations.addHandler(
        EdgeExchange(request, to: EdgeAddress(host: "edge", port: 80), promise: promise))
    } catch {
      return world.stop("\(name) cannot use its connection: \(error)")
    }
    accept(socket)
    channel.open()
    // Longer than an edge takes to answer that the cluster is silent.
    world.schedule(after: .seconds(7)) { [world] in
      promise.fail(EdgeFailure.timedOut)
      channel.close(promise: nil)
      world.schedule(after: .milliseconds(10)) { node.kill() }
    }
  }
}
