import CallBus
import CallCore
import CallWire
import Synchronization
import Testing

/// Values that an edge and a coordinator of one process hand to each other.
@Suite struct LocalExchangeTests {
  private final class Taken<Value: Sendable>: Sendable {
    private let values = Mutex<[Value]>([])
    var all: [Value] { values.withLock { $0 } }
    func add(_ value: Value) { values.withLock { $0.append(value) } }
  }

  private func batch(_ request: UInt64) -> CommandBatch {
    let user = UserKey(app: "demo", user: "ann")
    return CommandBatch(
      edge: 7,
      commands: [
        Command(
          session: SessionRef(edge: 7, number: 1), request: request, user: user, device: "phone",
          callee: user, body: .calls(shard: 0))
      ])
  }

  @Test func commandsReachTheOwnerOfTheirShard() {
    let exchange = LocalExchange()
    let taken = Taken<CommandBatch>()
    #expect(!exchange.offer(batch(1), to: 3))
    let subscription = exchange.serve(shard: 3, epoch: 5) { taken.add($0) }
    #expect(exchange.offer(batch(2), to: 3))
    #expect(!exchange.offer(batch(3), to: 4))
    subscription.cancel()
    subscription.cancel()
    #expect(!exchange.offer(batch(4), to: 3))
    #expect(taken.all == [batch(2)])
  }

  @Test func ownersLearnWhereTheEdgeIsAndThatItHasChanged() {
    let exchange = LocalExchange()
    let changes = Taken<Int>()
    let address = Taken<String>()
    for shard in [3, 4] {
      _ = exchange.serve(shard: shard, epoch: 5, edgeChanged: { changes.add(shard) }, { _ in })
    }
    #expect(exchange.edgeAddress == "")
    let edge = exchange.receive(edge: 7, at: { address.all.last ?? "" }, { _ in })
    address.add("wss://here")
    #expect(exchange.edgeAddress == "wss://here")
    exchange.dismiss(4, before: 6)
    exchange.edgeChanged()
    #expect(changes.all == [3])
    edge.cancel()
    #expect(exchange.edgeAddress == "")
  }

  @Test func anOwnerThatAnotherHasFollowedGetsNothing() {
    let exchange = LocalExchange()
    let taken = Taken<CommandBatch>()
    let former = exchange.serve(shard: 3, epoch: 5) { taken.add($0) }
    exchange.dismiss(3, before: 5)
    #expect(exchange.offer(batch(1), to: 3))
    exchange.dismiss(3, before: 6)
    #expect(!exchange.offer(batch(2), to: 3))
    // It comes back as the next owner, and only then notices that it was not the last.
    _ = exchange.serve(shard: 3, epoch: 7) { taken.add($0) }
    former.cancel()
    #expect(exchange.offer(batch(3), to: 3))
    #expect(taken.all == [batch(1), batch(3)])
  }

  @Test func itemsReachTheEdgeOfTheProcess() {
    let exchange = LocalExchange()
    let taken = Taken<[EdgeItem]>()
    let items = [EdgeItem(session: 1, body: .reply(request: 1, .done))]
    #expect(!exchange.offer(items, to: 7))
    #expect(!exchange.isLocal(7))
    let subscription = exchange.receive(edge: 7) { taken.add($0) }
    #expect(exchange.isLocal(7) && !exchange.isLocal(8))
    #expect(exchange.offer(items, to: 7))
    #expect(!exchange.offer(items, to: 8))
    subscription.cancel()
    #expect(!exchange.offer(items, to: 7))
    // Items that it sent over the bus before may still arrive.
    #expect(exchange.isLocal(7))
    #expect(taken.all == [items])
  }
}
