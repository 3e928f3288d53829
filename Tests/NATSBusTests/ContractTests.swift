import CallBus
import CallProcesses
import NATSBus
import Testing

/// The contract, on the bus in memory.
@Suite(.timeLimit(.minutes(2)))
struct InProcessBusContractTests {
  private func run(
    _ body: @Sendable (BusContract<InProcessBus>) async throws -> Void
  ) async throws {
    let bus = InProcessBus()
    try await body(BusContract(bus: bus, other: bus))
    await bus.close()
  }

  @Test func publishesToSubscribersAndWildcards() async throws {
    try await run { try await $0.publishesToSubscribersAndWildcards() }
  }
  @Test func givesEachMessageToOneOfAQueueGroup() async throws {
    try await run { try await $0.givesEachMessageToOneOfAQueueGroup() }
  }
  @Test func callsReadCompleteAfterHandlers() async throws {
    try await run { try await $0.callsReadCompleteAfterHandlers() }
  }
  @Test func answersRequests() async throws { try await run { try await $0.answersRequests() } }
  @Test func requestsFailClearly() async throws {
    try await run { try await $0.requestsFailClearly() }
  }
  @Test func collectsManyReplies() async throws {
    try await run { try await $0.collectsManyReplies() }
  }
  @Test func keepsTheOrderOfManyMessages() async throws {
    try await run { try await $0.keepsTheOrderOfManyMessages() }
  }
  @Test func appends() async throws { try await run { try await $0.appends() } }
  @Test func refusesAStaleWriter() async throws {
    try await run { try await $0.refusesAStaleWriter() }
  }
  @Test func purgesButKeepsTheNewest() async throws {
    try await run { try await $0.purgesButKeepsTheNewest(neighbour: 68, shardCount: 100) }
  }
  @Test(arguments: [16, 100]) func readsManyRecordsAtOnce(shardCount: Int) async throws {
    try await run { try await $0.readsManyRecordsAtOnce(shardCount: shardCount) }
  }
  @Test func keepsNothingOfDeletions() async throws {
    try await run { try await $0.keepsNothingOfDeletions() }
  }
  @Test func comparesAndSets() async throws { try await run { try await $0.comparesAndSets() } }
  @Test func deletesAndCreatesAgain() async throws {
    try await run { try await $0.deletesAndCreatesAgain() }
  }
  @Test func listsEntriesByFilter() async throws {
    try await run { try await $0.listsEntriesByFilter() }
  }
  @Test func listsAmidDeletions() async throws {
    try await run { try await $0.listsAmidDeletions() }
  }
  @Test func watchesWhatIsThereAndWhatChanges() async throws {
    try await run { try await $0.watchesWhatIsThereAndWhatChanges() }
  }
  @Test func handsOutEveryJobOnce() async throws {
    try await run { try await $0.handsOutEveryJobOnce() }
  }
  @Test func addsAnIdOnce() async throws {
    try await run { try await $0.addsAnIdOnce() }
  }
  @Test func handsOutAgainWhatATakerLeft() async throws {
    try await run { try await $0.handsOutAgainWhatATakerLeft() }
  }
  @Test func settlesAsItIsTold() async throws {
    try await run { try await $0.settlesAsItIsTold() }
  }
  @Test func givesNoMoreThanATakerMayHave() async throws {
    try await run { try await $0.givesNoMoreThanATakerMayHave() }
  }
  @Test func refusesWhenFull() async throws {
    try await run { try await $0.refusesWhenFull() }
  }
  @Test func namesOfLanesAreChecked() async throws {
    try await run { try await $0.namesOfLanesAreChecked() }
  }
}

/// The contract, on a real server.
@Suite(.timeLimit(.minutes(2)))
struct NATSBusContractTests {
  private func run(
    _ body: @Sendable (BusContract<NATSBus>) async throws -> Void
  ) async throws {
    let server = try await NATSServerProcess.start()
    defer { server.stop() }
    let options = NATSOptions(subjects: Subjects(cluster: "test", shardCount: 16))
    let bus = try await NATSBus.connect(url: server.url, name: "one", options: options)
    let other = try await NATSBus.connect(url: server.url, name: "two", options: options)
    try await body(BusContract(bus: bus, other: other))
    await bus.close()
    await other.close()
  }

  @Test func publishesToSubscribersAndWildcards() async throws {
    try await run { try await $0.publishesToSubscribersAndWildcards() }
  }
  @Test func givesEachMessageToOneOfAQueueGroup() async throws {
    try await run { try await $0.givesEachMessageToOneOfAQueueGroup() }
  }
  @Test func callsReadCompleteAfterHandlers() async throws {
    try await run { try await $0.callsReadCompleteAfterHandlers() }
  }
  @Test func answersRequests() async throws { try await run { try await $0.answersRequests() } }
  @Test func requestsFailClearly() async throws {
    try await run { try await $0.requestsFailClearly() }
  }
  @Test func collectsManyReplies() async throws {
    try await run { try await $0.collectsManyReplies() }
  }
  @Test func keepsTheOrderOfManyMessages() async throws {
    try await run { try await $0.keepsTheOrderOfManyMessages() }
  }
  @Test func appends() async throws { try await run { try await $0.appends() } }
  @Test func refusesAStaleWriter() async throws {
    try await run { try await $0.refusesAStaleWriter() }
  }
  @Test func purgesButKeepsTheNewest() async throws {
    try await run { try await $0.purgesButKeepsTheNewest(neighbour: 5, shardCount: 16) }
  }
  @Test func purgesWhereShardsShareAStream() async throws {
    try await run { try await $0.purgesButKeepsTheNewest(neighbour: 68, shardCount: 100) }
  }
  @Test(arguments: [16, 100]) func readsManyRecordsAtOnce(shardCount: Int) async throws {
    try await run { try await $0.readsManyRecordsAtOnce(shardCount: shardCount) }
  }
  @Test func keepsNothingOfDeletions() async throws {
    try await run { try await $0.keepsNothingOfDeletions() }
  }
  @Test func comparesAndSets() async throws { try await run { try await $0.comparesAndSets() } }
  @Test func deletesAndCreatesAgain() async throws {
    try await run { try await $0.deletesAndCreatesAgain() }
  }
  @Test func listsEntriesByFilter() async throws {
    try await run { try await $0.listsEntriesByFilter() }
  }
  @Test func listsAmidDeletions() async throws {
    try await run { try await $0.listsAmidDeletions() }
  }
  @Test func watchesWhatIsThereAndWhatChanges() async throws {
    try await run { try await $0.watchesWhatIsThereAndWhatChanges() }
  }
  @Test func handsOutEveryJobOnce() async throws {
    try await run { try await $0.handsOutEveryJobOnce() }
  }
  @Test func addsAnIdOnce() async throws {
    try await run { try await $0.addsAnIdOnce() }
  }
  @Test func handsOutAgainWhatATakerLeft() async throws {
    try await run { try await $0.handsOutAgainWhatATakerLeft() }
  }
  @Test func settlesAsItIsTold() async throws {
    try await run { try await $0.settlesAsItIsTold() }
  }
  @Test func givesNoMoreThanATakerMayHave() async throws {
    try await run { try await $0.givesNoMoreThanATakerMayHave() }
  }
  @Test func refusesWhenFull() async throws {
    try await run { try await $0.refusesWhenFull() }
  }
  @Test func namesOfLanesAreChecked() async throws {
    try await run { try await $0.namesOfLanesAreChecked() }
  }
}
