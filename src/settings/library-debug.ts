// Turns `DEBUG` off. Koa, its router and views, ioredis and the engine print requests, values of pages and passwords for it.
// The entrances import this first, because each library reads the variable when it is loaded.
delete process.env.DEBUG;
