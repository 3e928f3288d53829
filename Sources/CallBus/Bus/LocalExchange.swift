package import CallWire
internal import Synchronization

/// Hands values between an edge and a coordinator in one process: commands for the shards that the coordinator owns, and
/// what those shards have for the edge's sessions. Everything else goes over the bus.
///
/// It makes such a process cheaper and is no rule of the cluster: a shard accepts over the bus what comes from all other
/// edges. Between an edge and a shard of one process it is the only way, so that nothing can overtake on the bus what was
/// handed over here: a worker ignores messages of its own process's edge (`isLocal`). Those were sent while the shard had
/// another owner, which lost them; edges retransmit to each new owner. A thousand simulated seeds without that rule broke
/// nothing, since a command that comes again or late changes nothing; it keeps an order that new commands may rely on.
public final class LocalExchange: Sendable {
  private struct Shard {
    var epoch: UInt64
    var take: @Sendable (CommandBatch) -> Void
    var edgeChanged: @Sendable () -> Void
  }
  private struct State {
    var shards: [Int: Shard] = [:]
    /// The number of this process's edge. It remains when the edge has left.
    var edge: UInt64?
    var takeItems: (@Sendable ([EdgeItem]) -> Void)?
    var edgeAddress: (@Sendable () -> String)?
  }
  private let state = Mutex(State())
  private let observe: (@Sendable (Parcel) -> Void)?

  /// Data that one side hands to the other.
  package enum Parcel: Sendable {
    case commands(CommandBatch, shard: Int)
    case items([EdgeItem], edge: UInt64)
  }

  public init() { observe = nil }

  /// - Parameter observe: sees everything before its receiver does, for a simulation's invariants.
  package init(observing observe: @escaping @Sendable (Parcel) -> Void) { self.observe = observe }

  /// Lets go of both sides, whose closures retain them, when a simulated process has died.
  package func close() {
    // Released behind the lock.
    let former = state.withLock { state in
      let former = state
      state = State(edge: former.edge)
      return former
    }
    _ = former
  }

  // MARK: Shards

  /// Takes commands for a shard from now until the subscription is cancelled.
  /// - Parameters:
  ///   - edgeChanged: called on the edge's threads when `edgeAddress` has changed.
  ///   - take: called on the edge's threads while the exchange is locked, so it must not block or call the exchange.
  package func serve(
    shard: Int, epoch: UInt64, edgeChanged: @escaping @Sendable () -> Void = {},
    _ take: @escaping @Sendable (CommandBatch) -> Void
  ) -> any BusSubscription {
    state.withLock {
      $0.shards[shard] = Shard(epoch: epoch, take: take, edgeChanged: edgeChanged)
    }
    return LocalSubscription { [self] in dismiss(shard, before: epoch + 1) }
  }

  /// Another node owns the shard from `epoch` on: commands for it go over the bus, even if this process has not noticed.
  package func dismiss(_ shard: Int, before epoch: UInt64) {
    state.withLock { state in
      if let known = state.shards[shard], known.epoch < epoch { state.shards[shard] = nil }
    }
  }

  /// Hands commands to the shard's owner in this process.
  /// - Returns: false if this process does not own the shard.
  package func offer(_ batch: CommandBatch, to shard: Int) -> Bool {
    state.withLock { state in
      guard let owner = state.shards[shard] else { return false }
      observe?(.commands(batch, shard: shard))
      owner.take(batch)
      return true
    }
  }

  // MARK: The edge

  /// Takes what shards have for the edge's sessions, until the subscription is cancelled.
  /// - Parameters:
  ///   - address: as `edgeAddress`; called on the workers' threads.
  ///   - take: as for `serve`, on the workers' threads.
  package func receive(
    edge: UInt64, at address: @escaping @Sendable () -> String = { "" },
    _ take: @escaping @Sendable ([EdgeItem]) -> Void
  ) -> any BusSubscription {
    state.withLock {
      $0.edge = edge
      $0.takeItems = take
      $0.edgeAddress = address
    }
    return LocalSubscription { [self] in
      state.withLock {
        $0.takeItems = nil
        $0.edgeAddress = nil
      }
    }
  }

  /// Whether this is the number of this process's edge.
  package func isLocal(_ edge: UInt64) -> Bool { state.withLock { $0.edge == edge } }

  /// Where devices reach this process's edge; empty if they are not to be sent there.
  package var edgeAddress: String { state.withLock { $0.edgeAddress }?() ?? "" }

  /// `edgeAddress` has changed.
  package func edgeChanged() {
    let owners = state.withLock { Array($0.shards.values) }
    for owner in owners { owner.edgeChanged() }
  }

  /// Hands items to this process's edge.
  /// - Returns: false if the edge is another's, or has left.
  package func offer(_ items: [EdgeItem], to edge: UInt64) -> Bool {
    state.withLock { state in
      guard state.edge == edge, let take = state.takeItems else { return false }
      observe?(.items(items, edge: edge))
      take(items)
      return true
    }
  }
}

private struct LocalSubscription: BusSubscription {
  let end: @Sendable () -> Void
  func cancel() { end() }
}
